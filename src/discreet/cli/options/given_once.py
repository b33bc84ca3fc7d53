"""Commands that refuse an option that is given twice: the last one would win in silence, and a run may be charged for
another budget or target than was meant."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperOption

from discreet.core.errors import InputError

_LISTS = ("--target", "--classes", "--keep")
"""Options that take several names at once."""


class GivenOnce(TyperCommand):
    """A command whose options are given once, but for those that may be repeated. `--json --json` loses nothing."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:  # a shell completes what is not yet whole
            given = self.make_parser(ctx).parse_args(args=list(args))[2]
            for option in self.params:
                if isinstance(option, TyperOption) and _is_lost(option) and given.count(option) > 1:
                    raise InputError(_said(option))
        return super().parse_args(ctx, args)


def _is_lost(option: TyperOption) -> bool:
    """Whether an option keeps one value alone, so that giving it twice would lose the first."""
    return not option.multiple and (not option.is_flag or bool(option.secondary_opts))


def _said(option: TyperOption) -> str:
    name = max(option.opts, key=len)
    if option.secondary_opts:
        return f"{name} or {option.secondary_opts[0]} is given twice; give one of them, once"
    return f"{name} is given twice; give it once" + (f", with all names: {name} A,B" if name in _LISTS else "")
