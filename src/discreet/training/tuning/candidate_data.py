"""The private rows that candidates of a search see: the same rows for all, or a separate part for each."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.core.adjacency import Unit
from discreet.core.errors import InputError
from discreet.data import as_private, in_parts
from discreet.data.private.planned_parts import check_units, part_names
from discreet.plan import PartsSearch, Plan
from discreet.training.tuning.private_choice import PrivateChoice


@dataclass(frozen=True, slots=True)
class Seen:
    """The training data of one candidate, as `Training` takes it."""

    data: object
    units: object = None
    ids: object = None


def seen_by(plan: Plan, data: object, units: object, ids: object) -> tuple[list[Seen], PrivateChoice | None]:
    """The data of each candidate of the plan's search, and the part that the choice is made on, if there is one."""
    search = plan.search
    assert search is not None
    if not isinstance(search, PartsSearch):
        return [Seen(data, units, ids)] * len(search.candidates), None
    check_units(plan, units)
    private = as_private(data)
    names = part_names(plan, private, units, ids, "which part of the data a row is in")
    *training, last = in_parts(private, names, search.part_of, search.parts)
    users, most = plan.unit is Unit.USER, plan.sampling.sizes(plan.population)[1]
    for number, part in enumerate(training, start=1):
        if len(set(part.names) if users else part.names) > most:  # how many they are is private
            raise InputError(
                f"part {number} of {search.parts} has more units than the {most} that the declared population of a "
                "part allows; declare one that is large enough, or take fewer candidates"
            )
    choice = PrivateChoice(search, last, plan.unit)
    return [Seen(part.data, part.names if users else None) for part in training], choice
