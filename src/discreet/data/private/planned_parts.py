"""The unit and the part of the data that each private row belongs to, as a plan says."""

from __future__ import annotations

from discreet.core.adjacency import Adjacency, Unit
from discreet.core.errors import InputError
from discreet.data.private.held_out import Parts, hold_out
from discreet.data.private.private import PrivateData
from discreet.plan import AdaptivePlan, Plan


def planned_parts(plan: Plan | AdaptivePlan, data: PrivateData, units: object, ids: object) -> Parts:
    """The data by the units that the plan protects, split into training and hold-out.

    `units`: the user of each row, where the plan protects users. `ids`: an identifier of each row, where single rows
    are held out. Where the rows of a data set are public, their numbers may serve.
    """
    check_units(plan, units)
    if plan.holdout is None:
        if ids is not None:
            raise InputError(
                "ids was given, but the plan holds no rows out; make the plan with holdout=0.2, say, or leave ids out"
            )
        return Parts(data if units is None else data.grouped(units))
    names = part_names(plan, data, units, ids, "which rows are held out")
    return hold_out(data, names, plan.holdout.holds_out, are_units=units is not None)


def check_units(plan: Plan | AdaptivePlan, units: object) -> None:
    """Refuse `units` where the plan protects single rows, and missing `units` where it protects users."""
    if plan.unit is Unit.EXAMPLE and units is not None:
        raise InputError("units was given, but the plan protects single rows; make the plan with unit='user'")
    if plan.unit is Unit.USER and units is None:
        raise InputError("the plan protects users; say whose each row is with units=..., one identifier for each row")


def part_names(plan: Plan | AdaptivePlan, data: PrivateData, units: object, ids: object, what: str) -> object:
    """The identifier that decides each row's part of the data: its user's, or its own."""
    if units is not None and ids is not None:
        raise InputError(f"ids was given beside units, but {what} is decided by the user of a row; leave ids out")
    if units is not None:
        return units
    if ids is not None:
        return ids
    if plan.adjacency is Adjacency.ADD_REMOVE or data.sites is not None:
        raise InputError(
            f"{what} must depend on nothing but each row itself: give ids, a name for each row that stays the same "
            "when others come or go (row_id in the schema of a table, ids_train in a .npz file)"
        )
    return range(data.rows)
