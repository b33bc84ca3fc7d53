"""Images from folders and index files, as blocks of a table with a schema."""

from discreet.data.tables.images.image_blocks import Once, opened, sources
from discreet.data.tables.images.image_file import is_coloured
from discreet.data.tables.images.image_folder import classes_in, images_under

__all__ = ["Once", "classes_in", "images_under", "is_coloured", "opened", "sources"]
