"""`discreet calibrate`: the noise, steps, sampling rate or schedule that a limit allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from discreet.accounting import schedules
from discreet.accounting.method import Method
from discreet.cli.options import accounting as options
from discreet.cli.options.checked_numbers import number
from discreet.cli.options.json_output import JsonOption, echo_json
from discreet.cli.options.plan import PlanOptions, with_plan
from discreet.cli.options.schedule_limits import Spending, picture
from discreet.cli.options.schedule_limits import solve as solve_schedule
from discreet.core import checks
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError, NotProved
from discreet.core.events import Event
from discreet.core.rounding import delta_up, rounded_up
from discreet.sampling import Options, PoissonSampling

RhoOption = Annotated[
    float | None,
    typer.Option("--rho", help="A zCDP budget for --schedule, in epochs of disjoint batches or without sampling."),
]
MuOption = Annotated[
    float | None,
    typer.Option("--mu", help="The mu of a Gaussian trade-off curve that the plan's must not go below, but for delta."),
]
AdvantageOption = Annotated[
    float | None, number("--advantage", checks.open_unit, "The most true less false positives of any attack.")
]
TprOption = Annotated[
    float | None,
    number("--tpr", checks.open_unit, "The most true positives of an attack whose false positives are --fpr."),
]
FprOption = Annotated[float | None, number("--fpr", checks.open_unit, "False positives, for --tpr.")]
PlotOption = Annotated[
    Path | None, typer.Option("--plot", help="With --schedule: picture of noise and what is spent, .png or .svg.")
]


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of the plan: at most `value` of the measure `name`."""

    name: str
    value: float
    delta: float | None
    fpr: float | None
    adjacency: Adjacency
    method: Method

    def measure(self) -> Callable[[Event], float]:
        """A plan's value of the measure."""
        from discreet.accounting.answers import solve

        if self.name == "epsilon":
            assert self.delta is not None
            return solve.epsilon_of(self.delta, self.adjacency, self.method)
        if self.name == "mu":
            return solve.mu_of(self.delta or 0.0, self.adjacency)
        if self.name == "advantage":
            return solve.advantage_of(self.adjacency)
        assert self.fpr is not None
        return solve.true_positives_of(self.fpr, self.adjacency)


_LARGEST = {"epsilon": 700.0, "mu": 40.0}
"""e to the power of this epsilon is no number; beyond this mu, no error of the first kind is left."""

_LEAST_RATE, _MOST_STEPS = 1e-6, 10**7


@with_plan
def calibrate(
    context: typer.Context,
    plan: PlanOptions,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="The budget to meet.")] = None,
    rho: RhoOption = None,
    mu: MuOption = None,
    advantage: AdvantageOption = None,
    tpr: TprOption = None,
    fpr: FprOption = None,
    delta: options.MaybeDeltaOption = None,
    method: options.MethodOption = Method.PLD,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find what is left out: --noise, --steps, --epochs, --rate or --batch; of a --schedule its initial or rate."""
    if plot is not None:
        if plan.schedule is None:
            raise InputError("--plot draws a --schedule; for other plans use discreet plan or discreet compare")
        from discreet.cli.show.picture_files import check_target

        check_target(plot)
    given = {"epsilon": epsilon, "rho": rho, "mu": mu, "advantage": advantage, "tpr": tpr}
    limits = {name: value for name, value in given.items() if value is not None}
    if len(limits) != 1:
        raise InputError(
            "give one limit: --epsilon with --delta, --mu, --advantage, --tpr with --fpr, or --rho with --schedule"
        )
    if (tpr is None) != (fpr is None):
        raise InputError("--tpr and --fpr go together: the most true positives at so many false positives")
    if rho is not None:
        _refuse_poisson(plan, context)
        _refuse_unheeded(plan, method)
        _schedule_for_rho(rho, plan, delta, plot, as_json)
        return
    if epsilon is not None and delta is None:
        raise InputError("--epsilon needs --delta")
    if epsilon is None and method is not Method.PLD:
        raise InputError(f"--method {method.value} goes with --epsilon; the other limits are kept by method pld")
    ((name, value),) = limits.items()
    limit = Limit(name, checks.positive(f"--{name}", value), delta, fpr, plan.neighbours, method)
    if mu is not None and delta is None and plan.sampling != "none":
        raise InputError("--mu needs --delta where batches are sampled: the curve holds but for so much")
    if plan.noise_list is not None:
        raise InputError("--noise-list leaves nothing to find; give --noise, or find it")
    _check_size(plan, limit)
    if plan.schedule is not None:
        _schedule(plan, limit, plot, as_json)
    elif plan.noise is None:
        _noise(plan, limit, as_json)
    else:
        _steps_or_rate(plan, limit, as_json)


def _check_size(plan: PlanOptions, limit: Limit) -> None:
    """Refuse what no training asks for, before a search that prices it a dozen times."""
    if limit.name in _LARGEST and limit.value > _LARGEST[limit.name]:
        most = _LARGEST[limit.name]
        raise InputError(f"--{limit.name} must be at most {most:g}, got {limit.value:g}: that promises nothing")
    if plan.rate is None and plan.batch is None:
        return
    rate = plan.draws.rate
    if rate < _LEAST_RATE:
        raise InputError(f"the sampling rate must be at least {_LEAST_RATE:g} to calibrate, got {rate:g}")
    if plan.steps is None and plan.epochs is None:
        return
    if (count := options.step_count(plan.steps, plan.epochs, rate)) > _MOST_STEPS:
        raise InputError(f"plans of at most {_MOST_STEPS:,} steps are calibrated, as recipes have; got {count:,}")


def _noise(plan: PlanOptions, limit: Limit, as_json: bool) -> None:
    draws = plan.draws
    count = options.step_count(plan.steps, plan.epochs, draws.rate)

    def event(noise: float) -> Event:
        return draws.uniform(noise, count)

    if limit.name == "epsilon":
        from discreet.accounting.answers.calibrate import calibrate_noise

        assert limit.delta is not None
        noise, met = calibrate_noise(event, limit.value, limit.delta, limit.adjacency, limit.method)
        options.show(met, as_json, [("noise_multiplier", noise)])
        return
    from discreet.accounting.answers import solve

    found = solve.noise_for(event, limit.measure(), limit.value)
    _show(limit, event(found.value), found.spent, {"noise_multiplier": found.value}, as_json)


def _steps_or_rate(plan: PlanOptions, limit: Limit, as_json: bool) -> None:
    from discreet.accounting.answers import solve

    noise = checks.positive("--noise", plan.noise)
    if plan.steps is None and plan.epochs is None:
        draws = plan.draws
        steps = solve.steps_for(lambda count: draws.uniform(noise, count), limit.measure(), limit.value)
        count = int(steps.value) - int(steps.value) % draws.period or draws.period  # a period that begins counts whole
        fields: dict[str, float] = {"steps": count, "epochs": count * draws.rate}
        _show(limit, draws.uniform(noise, count), steps.spent, fields, as_json)
        return
    if plan.sampling == "none" or plan.rate is not None or plan.batch is not None:
        raise InputError("nothing is left to find: leave out --noise, --steps (or --epochs), or --rate (or --batch)")
    if plan.sampling != "poisson":
        raise InputError("the largest rate is found for --sampling poisson only; give --rate, or --batch")

    def event(rate: float) -> Event:
        return PoissonSampling.from_options(Options("poisson", rate)).uniform(
            noise, options.step_count(plan.steps, plan.epochs, rate)
        )

    rate = solve.rate_for(event, limit.measure(), limit.value)
    fields = {"sampling_rate": rate.value}
    if plan.population is not None:
        fields["batch"] = rate.value * checks.positive("--population", plan.population)
    _show(limit, event(rate.value), rate.spent, fields, as_json)


def _schedule(plan: PlanOptions, limit: Limit, plot: Path | None, as_json: bool) -> None:
    if plan.noise is not None:
        raise InputError("give --noise or --schedule, not both")
    draws, measure = plan.draws, limit.measure()

    def event(shape: schedules.Schedule, count: int) -> Event:
        phases = shape.phases(options.step_count(None, count, draws.rate), draws.rate)
        return options.PlannedNoise(draws, tuple(phases)).event()

    def fits(shape: schedules.Schedule, count: int) -> bool:
        from discreet.accounting.answers import solve

        try:
            releases = event(shape, count)
        except InputError:  # the noise has fallen to nothing
            return False
        if limit.name == "epsilon":
            assert limit.delta is not None
            return solve.fits_epsilon(releases, limit.value, limit.delta, limit.adjacency, limit.method)
        return measure(releases) <= limit.value

    spending = Spending(limit.name, limit.value, lambda shape, count: measure(event(shape, count)), fits)
    found = solve_schedule(str(plan.schedule), plan.epochs, spending)
    whole = event(found.shape, found.epochs)
    _show(limit, whole, measure(whole), found.fields, as_json)
    if plot is not None:
        picture(plot, found, spending)


def _show(limit: Limit, event: Event, spent: float, found: dict[str, float], as_json: bool) -> None:
    """Print the found quantity, and the plan's value of the measure."""
    if limit.name == "epsilon":
        from discreet.accounting.account import guarantee

        assert limit.delta is not None
        met = guarantee(event, limit.delta, limit.adjacency, limit.method)
        options.show(met, as_json, list(found.items()))
        return
    # Without sampling every figure is that of one exact Gaussian; otherwise it is read off the privacy-loss curve.
    fields: dict[str, object] = {**found, limit.name: spent, "budget": limit.value}
    if limit.fpr is not None:
        fields["fpr"] = limit.fpr
    if limit.delta is not None:
        fields["delta"] = limit.delta
    fields |= {"adjacency": limit.adjacency.value, "method": "pld", "kind": "guarantee"}
    if as_json:
        echo_json(fields)
        return
    what = {"mu": "mu", "advantage": "advantage", "tpr": f"true positives at {limit.fpr} false positives"}[limit.name]
    but = f" but for {delta_up(limit.delta)}" if limit.name == "mu" and limit.delta else ""
    typer.echo(
        f"{options.named(found)}: {what} {rounded_up(spent)} of {limit.value:g}{but}, {limit.adjacency.value}, "
        "proved by pld"
    )


def _refuse_poisson(plan: PlanOptions, context: typer.Context) -> None:
    """Refuse --rho for Poisson batches that were asked for. By default it counts epochs of disjoint ones."""
    said = context.get_parameter_source("sampling")
    asked = said is not None and said.name != "DEFAULT"
    if plan.sampling == "poisson" and (asked or plan.rate is not None or plan.batch is not None):
        raise NotProved(
            "--rho counts epochs of disjoint batches, and a unit may be in several Poisson batches of an epoch; use "
            "--sampling shuffle or none, or --epsilon with --delta"
        )


def _refuse_unheeded(plan: PlanOptions, method: Method) -> None:
    """Refuse options that a schedule found for --rho would not heed."""
    names = ("noise", "noise_list", "steps", "bands", "chosen", "capacity", "full")
    given = [f"--{name.replace('_', '-')}" for name in names if getattr(plan, name) is not None]
    given += [] if method is Method.PLD else ["--method"]
    if given:
        raise InputError(
            f"--rho does not heed {given[0]}: it finds the noise of a --schedule over --epochs; leave it out"
        )


def _schedule_for_rho(rho: float, plan: PlanOptions, delta: float | None, plot: Path | None, as_json: bool) -> None:
    """By Yu et al. 2019, Theorem 2: an epoch costs as much as its dearest batch, and epochs add up."""
    rho = checks.positive("--rho", rho)
    if plan.schedule is None:
        raise InputError("--rho needs --schedule; to calibrate the noise itself give --epsilon")
    if plan.sampling not in ("poisson", "shuffle", "none"):
        raise NotProved("--rho counts epochs of disjoint batches; use --sampling shuffle, or --sampling none")
    sampled, adjacency = plan.sampling != "none", plan.adjacency
    if adjacency is None:
        adjacency = Adjacency.ZERO_OUT if sampled else Adjacency.ADD_REMOVE
    if adjacency is Adjacency.ADD_REMOVE and sampled:
        raise NotProved("--rho counts epochs of disjoint batches; use --adjacency zero_out, or --sampling none")
    ratio = 4.0 if adjacency is Adjacency.REPLACE_ONE else 1.0
    spending = Spending(
        "rho",
        rho,
        lambda shape, count: ratio * shape.rho(count),
        lambda shape, count: ratio * shape.rho(count) <= rho * (1 + 1e-9),
    )
    found = solve_schedule(plan.schedule, plan.epochs, spending)
    spent = ratio * found.shape.rho(found.epochs) * (1 + 1e-12)
    fields: dict[str, object] = {**found.fields, "epochs": found.epochs, "rho": spent, "budget": rho}
    fields |= {"adjacency": adjacency.value, "method": "zcdp", "kind": "guarantee"}
    if delta is not None:
        from discreet.accounting.theories import zcdp

        fields |= {"epsilon": zcdp.epsilon(spent, delta), "delta": delta}
    if plot is not None:
        picture(plot, found, spending)
    if as_json:
        echo_json(fields)
        return
    converted = (
        "" if delta is None else f", epsilon {rounded_up(float(str(fields['epsilon'])))} at delta {delta_up(delta)}"
    )
    typer.echo(
        f"{options.named(found.fields)}: rho {rounded_up(spent, 6)} of {rho:g} after {found.epochs} epochs{converted}, "
        f"{adjacency.value}, proved by zcdp for epochs of disjoint batches or without sampling"
    )
