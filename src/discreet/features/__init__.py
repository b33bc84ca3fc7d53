"""Features that do not depend on data: fixed front ends without parameters, and their one-time computation.

Front ends hold public knowledge about images, so privacy is paid only for the model behind them.
"""

from discreet.features.deskew import Deskew
from discreet.features.edges import Edges
from discreet.features.front_ends import FRONT_ENDS, SIZE, Beside, RowNorm
from discreet.features.hog import Hog
from discreet.features.precompute import Precomputed, precompute
from discreet.features.random_convolutions import RandomConvolutions
from discreet.features.scattering import Scattering
from discreet.features.strokes import Strokes

__all__ = [
    "FRONT_ENDS",
    "SIZE",
    "Beside",
    "Deskew",
    "Edges",
    "Hog",
    "Precomputed",
    "RandomConvolutions",
    "RowNorm",
    "Scattering",
    "Strokes",
    "precompute",
]
