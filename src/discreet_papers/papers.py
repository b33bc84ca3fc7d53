"""The papers whose tables and figures are regenerated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Paper:
    """The short and the full name of a paper."""

    short: str
    full: str


PAPERS: Mapping[str, Paper] = {
    "yu": Paper(
        "Yu et al. 2019", "Yu, Liu, Pu, Gursoy, Truex: Differentially Private Model Publishing for Deep Learning (2019)"
    ),
    "adadp": Paper(
        "Xu et al. 2019",
        "Xu, Shi, Liu, Zhao, Chen: An Adaptive and Fast Convergent Approach to DP Deep Learning (2019)",
    ),
    "gdp": Paper("Bu et al. 2020", "Bu, Dong, Long, Su: Deep Learning with Gaussian Differential Privacy (2020)"),
    "lecuyer": Paper(
        "Lecuyer 2021", "Lecuyer: Practical Privacy Filters and Odometers with Rényi Differential Privacy (2021)"
    ),
    "dropout": Paper("DP dropout 2017", "Differentially Private Dropout (2017)"),
    "all": Paper("all five", "All five papers"),
}
"""Papers by the key that experiments use; `all` is for experiments about several papers."""
