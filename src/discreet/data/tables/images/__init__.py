"""Images from folders and index files, as blocks of a table with a schema."""

from discreet.data.tables.images.blocks import Once, opened, sources
from discreet.data.tables.images.folder import classes_in, images_under
from discreet.data.tables.images.reading import is_coloured

__all__ = ["Once", "classes_in", "images_under", "is_coloured", "opened", "sources"]
