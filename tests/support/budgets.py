"""A filter of every kind."""

from discreet.accounting.adaptive.filter_fit import curve_filter, gaussian_filter, order_filter, zcdp_filter
from discreet.accounting.adaptive.filters import (
    BasicFilter,
    Conversion,
    Filter,
)
from discreet.core.adjacency import Adjacency
from discreet.core.events import Gaussian, Poisson, Repeat

SAMPLED = Poisson(0.01, Gaussian(1.0))


COURSE = Repeat(SAMPLED, 1000)


PLAIN = Gaussian(10.0)


ALL: list[Filter] = [
    order_filter(COURSE, 3.0, 1e-5),
    order_filter(COURSE, 3.0, 1e-5, conversion=Conversion.CLASSIC),
    curve_filter(COURSE, 3.0, 1e-5),
    zcdp_filter(3.0, 1e-5),
    gaussian_filter(3.0, 1e-5),
    BasicFilter(3.0, 1e-5, Adjacency.ZERO_OUT),
]


COUNTED = ALL[:-1]
