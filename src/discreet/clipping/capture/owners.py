"""The modules of a model that own trained parameters, and the rule by which each is clipped."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn
from torch.nn.utils import parametrize

from discreet.clipping.admission.admission import private_parameters
from discreet.clipping.rules import RULES, HeldDirectly, Rule, Vectorised
from discreet.clipping.rules.broadcast import Broadcast

WHOLE = (nn.MultiheadAttention, nn.RNNBase, nn.RNNCellBase)
"""Modules that use the parameters of modules inside without calling these."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A module that owns trainable parameters: `parameters`, by their names within the module.

    `open`: modules inside are owners themselves; `parameters` are those that the module holds directly.
    """

    name: str
    module: nn.Module
    rule: type[Rule]
    parameters: dict[str, nn.Parameter]
    open: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its parameters."""
        return tuple(self.parameters)

    @property
    def keys(self) -> tuple[int, ...]:
        """The ids of its parameters, which identify them."""
        return tuple(map(id, self.parameters.values()))

    @property
    def runs_again(self) -> bool:
        """Whether the layer rule runs the module's forward pass again, for which its weights must be there."""
        return self.rule.replays or issubclass(self.rule, Vectorised)

    @property
    def reads_weights(self) -> bool:
        """Whether the layer rule needs the weights after the backward pass: to run the module again, or to take
        gradients back through functions of weights."""
        return self.runs_again or self.rule is Broadcast

    @property
    def described(self) -> str:
        """The description of the module in messages."""
        return f"module {self.name or 'model'!r} ({type(self.module).__name__})"


def owners_of(model: nn.Module) -> list[Owner]:
    """The owners of a model. Every trainable parameter belongs to one, a shared one to each owner that holds it."""
    found: list[Owner] = []
    seen: set[int] = set()

    def visit(name: str, module: nn.Module) -> None:
        if id(module) in seen:
            return
        seen.add(id(module))
        rule = rule_of(module)
        if rule is not None or isinstance(module, WHOLE) or parametrize.is_parametrized(module):
            trained = private_parameters(module) if module._modules else _direct(module)
            if trained:
                found.append(Owner(name, module, rule or Vectorised, trained))
            return
        direct = _direct(module)
        if direct:
            found.append(Owner(name, module, HeldDirectly, direct, open=len(direct) < len(private_parameters(module))))
        for child, inner in module._modules.items():
            if inner is not None:
                visit(f"{name}.{child}" if name else child, inner)

    visit("", model)
    return found


def rule_of(module: nn.Module) -> type[Rule] | None:
    """The rule for a module; None unless its type has a rule that covers this configuration."""
    for kind in type(module).__mro__:
        if kind in RULES:
            rule = RULES[kind]
            trained = private_parameters(module) if module._modules else _direct(module)
            known = not rule.names or all(name in rule.names for name in trained)
            return rule if known and type(module).forward is kind.forward and rule.covers(module) else None
    return None


def _direct(module: nn.Module) -> dict[str, nn.Parameter]:
    """The trainable parameters that a module holds itself, each once."""
    found: dict[str, nn.Parameter] = {}
    for name, parameter in module._parameters.items():
        if parameter is not None and parameter.requires_grad and not any(parameter is one for one in found.values()):
            found[name] = parameter
    return found
