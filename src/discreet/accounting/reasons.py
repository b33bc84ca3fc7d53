"""One sentence for each theory on why its figure does or does not hold, and where it was published."""

from __future__ import annotations

from collections.abc import Collection

from discreet.accounting.theory_table import PROVERS

WHY = {
    "pld": "Holds: the whole privacy-loss distribution is composed, both directions, rounded outward.",
    "rdp": "Holds: Rényi bounds add up; the conversion to (epsilon, delta) gives some away.",
    "gdp": "Holds, exactly: Gaussians without sampling are one Gaussian.",
    "zcdp": "Holds without sampling: one number bounds the loss at every order; the conversion gives some away.",
    "advanced": "Holds: each step is reduced to (epsilon, delta) before composing, which gives much away.",
    "basic": "Holds: the epsilons are added up as if the worst case struck at every step.",
    "clt": "Does not hold: a limit for infinitely many steps; at finite length it errs on the unsafe side as well.",
    "zcdp-rs": "Does not hold: its bound at each order is a conjecture, and false near noise 1 at the largest rates.",
    "moments": "Holds, but loosely: Rényi bounds with the first conversion; printed for comparison with papers.",
    "zcdp-rf": "Does not hold for Poisson batches: it counts an epoch of disjoint batches as one step.",
    "strong": "Does not hold in general: its epsilon of a step is proved only below 1; otherwise as advanced, looser.",
    "adadp": "Does not hold: the exponents of its sums are misprinted; method rdp has the theorem that was meant.",
    "dropout-ac": "Does not hold: it composes as many releases as there are passes over the data, not steps.",
    "dropout-zcdp": "Does not hold: as dropout-ac, and it amplifies a zCDP figure, which no theorem allows.",
}

_FIXED = {
    "pld": "Holds under replace_one: each step's curve is symmetrised before composing; the lower bound is one-sided.",
    "rdp": "Holds under replace_one: Wang, Balle, Kasiviswanathan 2019, Theorem 9; its conversion gives some away.",
    "clt": "Does not hold: a limit for infinitely many steps, of the symmetrised curve; finite lengths may cost more.",
    "zcdp-rf": "Does not hold: batches of fixed size, drawn anew for each step, are not disjoint.",
    "moments": "Holds under replace_one, but loosely: Theorem 9 of Wang et al. as stated, with the first conversion.",
}
_DISJOINT = {
    "pld": "Holds under zero_out and replace_one: an epoch is at most its dearest batch without sampling.",
    "zcdp": "Holds under zero_out and replace_one: an epoch costs its dearest batch; the conversion gives some away.",
    "zcdp-rf": "Holds for epochs of disjoint batches; its conversion gives more away than that of method zcdp.",
    "clt": "Nothing is sampled here that could amplify: the figure is that of method gdp.",
}
_ALLOCATED = {
    "pld": "Holds: the whole privacy-loss distribution of a random step is composed (replace_one: of a known step).",
    "zcdp-rf": "Holds: every unit is in a known number of steps; its conversion gives more away than that of zcdp.",
    "clt": _DISJOINT["clt"],
}
_BOUNDED = "Holds: what it bounds is Gaussian without sampling, which the batches are at most; the truth may be less."
_WHY_BY_SAMPLER: dict[str, dict[str, str]] = {
    "FixedSize": _FIXED,
    "Epoch": {"gdp": _BOUNDED, "rdp": _BOUNDED, "moments": _BOUNDED} | _DISJOINT,
    "Allocation": {"gdp": _BOUNDED, "rdp": _BOUNDED, "moments": _BOUNDED, "zcdp": _BOUNDED} | _ALLOCATED,
}
_OVERFLOW = {
    True: " Batches that overflow are paid for out of delta.",
    False: " Batches that overflow are not counted.",
}
_ESCAPES = {
    True: " Values of a sparse histogram that one row alone has are paid for out of delta.",
    False: " Values of a sparse histogram that one row alone has are not counted.",
}


def why(theory: str, samplers: Collection[str]) -> str:
    """One sentence, or two, on why the figure of `theory` does or does not hold for draws by these samplers."""
    special = [table[theory] for name, table in _WHY_BY_SAMPLER.items() if name in samplers and theory in table]
    overflow = _OVERFLOW[theory in PROVERS] if "TruncatedPoisson" in samplers else ""
    escapes = _ESCAPES[theory in PROVERS] if "SparseHistogram" in samplers else ""
    return (special[0] if len(special) == 1 and len(samplers) == 1 else WHY[theory]) + overflow + escapes


SOURCES = {
    "moments": "Abadi et al. 2016; Mironov 2017, Proposition 3",
    "zcdp-rf": "Yu et al. 2019, Theorem 2 and section IV-B1",
    "adadp": "Xu et al. 2019, Theorem 1",
    "dropout-ac": "Differentially Private Dropout 2017, section 4.3, DPD-AC",
    "dropout-zcdp": "Differentially Private Dropout 2017, section 4.3, DPD-zCDP",
    "strong": "Yu et al. 2019, figure 2; Dwork, Rothblum, Vadhan 2010, Theorem III.3",
}
