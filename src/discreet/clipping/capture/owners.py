"""The modules of a model that own trained parameters, and the rule by which each is clipped."""

from __future__ import annotations

import types
import weakref
from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from discreet.clipping.admission.admission import private_parameters
from discreet.clipping.named_tensors import named_tensors
from discreet.clipping.rules import RULES, HeldDirectly, Rule, Vectorised
from discreet.clipping.rules.broadcast import Broadcast
from discreet.clipping.separation.glance import is_more
from discreet.core.errors import UnsupportedModel, kind_of
from discreet.core.imports.origin import bases, held_by, is_from, static, strangers

WHOLE = (nn.MultiheadAttention, nn.RNNBase, nn.RNNCellBase)
"""Modules that use the parameters of modules inside without calling these."""

_FREE = frozenset(
    {
        *("__init__", "__new__", "__init_subclass__", "__subclasshook__"),
        *("__repr__", "__str__", "__format__", "__call__"),
        *("__eq__", "__hash__", "__sizeof__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__dir__"),
        *("extra_repr", "_get_name", "reset_parameters", "_reset_parameters", "train", "eval", "to", "_apply", "apply"),
        *("state_dict", "load_state_dict", "_load_from_state_dict", "_save_to_state_dict", "from_pretrained"),
        *("get_extra_state", "set_extra_state", "zero_grad", "requires_grad_", "compile", "__class__", "__delattr__"),
    }
)
"""Methods of modules that neither the forward pass nor a layer rule calls."""


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

    def as_it_is(self) -> Self:
        """The owner with a module that keeps the attributes of now, for a layer rule that reads them after the forward
        pass; its parameters and buffers are the same. A module that will run again is left as it is."""
        if issubclass(self.rule, Vectorised):
            return self
        if rule_of(self.module) is not self.rule:
            raise UnsupportedModel(
                f"{self.described} has become another layer while the model ran: its class, or an attribute that its "
                "layer rule reads; use engine='vmap'"
            )
        return replace(self, module=_as_it_is(self.module))


def owners_of(model: nn.Module) -> list[Owner]:
    """The owners of a model. Every trainable parameter belongs to one, a shared one to each owner that holds it."""
    found: list[Owner] = []
    seen: set[int] = set()

    def visit(name: str, module: nn.Module) -> None:
        if id(module) in seen:
            return
        seen.add(id(module))
        rule = rule_of(module)
        if rule is not None or isinstance(module, WHOLE) or "parametrizations" in module._modules:
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


_WALKS = frozenset(
    {
        *("parameters", "named_parameters", "buffers", "named_buffers", "modules", "named_modules", "children"),
        *("named_children", "_named_members", "get_parameter", "get_buffer", "get_submodule", "__getattribute__"),
        *("register_forward_hook", "register_forward_pre_hook", "_parameters", "_buffers", "_modules", "__dict__"),
    }
)
"""Methods and attributes of modules that an engine uses while a module may hold rows of a batch."""


def refuse_own_walks(model: nn.Module) -> None:
    """`UnsupportedModel` for a module that answers by code of its own when an engine asks for its parameters or
    modules: no record sees what else that does."""
    todo, seen = [model], set[int]()
    while todo:
        module = todo.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        held = object.__getattribute__(module, "__dict__")
        kind: Any = type(module)
        if (name := next(iter(_overridden(kind) | _shadowed(held)), None)) is not None:
            raise UnsupportedModel(
                f"{kind_of(module)} has a method {name!r} of its own, which engines that run a batch as a batch would "
                "call; give it another name, or use engine='vmap'"
            )
        todo += [one for one in held["_modules"].values() if one is not None]


def refuse_own_tensors(model: nn.Module) -> None:
    """`UnsupportedModel` for a parameter or buffer of a type of its own, for the same reason."""
    for name, one in named_tensors(model).together.items():
        if type(one) not in (Tensor, nn.Parameter):
            raise UnsupportedModel(f"{name!r} is {kind_of(one)}, a tensor of a type of its own; use engine='vmap'")


@cache
def _overridden(kind: Any) -> frozenset[str]:
    """The names among `_WALKS` for which a class, or one that it is derived from, has code that is not torch's."""
    torchs = next(one for one in bases(kind) if is_from(one, "torch") and issubclass(one, nn.Module))
    own = [held_by(one) for one in strangers(kind, torchs)]
    hidden = any(type(held.get("__dict__", _DICT)) is not type(_DICT) for held in own)
    found = frozenset(name for name in _WALKS - {"__dict__"} if static(kind, name) is not static(torchs, name))
    return found | {"__dict__"} if hidden else found


_DICT = vars(nn.Module)["__dict__"]
"""The descriptor by which Python finds the attributes of an object."""


def _shadowed(held: dict[str, Any]) -> frozenset[str]:
    return _WALKS.intersection(held) - {"_parameters", "_buffers", "_modules"}


def rule_of(module: nn.Module) -> type[Rule] | None:
    """The rule for a module; None unless its type has a rule that covers this configuration."""
    for kind in type(module).__mro__:
        if kind in RULES:
            rule = RULES[kind]
            trained = private_parameters(module) if module._modules else _direct(module)
            known = not rule.names or all(name in rule.names for name in trained)
            return rule if known and _computes_as(module, kind) and rule.covers(module) else None
    return None


def _computes_as(module: nn.Module, kind: Any) -> bool:
    """Whether the forward pass of a module is that of its base class `kind`: neither its class nor the module itself
    replaces what that calls or reads, each of its parameters has one name, and modules inside are torch's."""
    own: Any = type(module)  # `Any`, as torch's modules are no `Hashable`
    if not _is_plain(own, kind) or not _methods(kind).isdisjoint(vars(module)):
        return False
    if not all(_is_value(vars(module)[name]) for name in _read_by(kind) & vars(module).keys()):
        return False
    if module._modules and not all(map(_is_layer_of_torch, [*module.modules()][1:])):
        return False
    named: list[int] = []
    for part in module.modules() if module._modules else (module,):
        held = {*part._parameters, *part._buffers, *part._modules}
        if not held.isdisjoint(vars(part)) or any(hasattr(type(part), name) for name in held):
            return False
        named += [id(one) for one in part._parameters.values() if one is not None]
    return len({*named}) == len(named)


@cache
def _methods(kind: Any) -> frozenset[str]:
    """The names of the methods of a type of torch that its forward pass, or a layer rule, may call."""
    return frozenset(name for one in kind.__mro__ for name, held in vars(one).items() if callable(held)) - _FREE


@cache
def _read_by(kind: Any) -> frozenset[str]:
    """The names that the methods of a layer of torch read, other than those of all modules; of others, none."""
    if not is_from(kind, "torch"):
        return frozenset()
    held = [one for base in strangers(kind, nn.Module) for one in held_by(base).values()]
    return frozenset(name for one in held if isinstance(one, types.FunctionType) for name in one.__code__.co_names)


_VALUES = frozenset({int, float, bool, str, type(None), torch.dtype, torch.device, Tensor, nn.Parameter, weakref.ref})
"""The types of what layers of torch hold. Those derived from them may have code of their own."""

_NUMBERS = frozenset(np.sctypeDict.values())
"""The types of NumPy's numbers, such as a size that was computed."""


def _is_value(held: object) -> bool:
    """Whether an attribute is plain data, as numbers, text and lists of them are: reading it runs no code."""
    if type(held) is tuple or type(held) is list:
        return all(map(_is_value, held))
    return type(held) in _VALUES or type(held) in _NUMBERS or type(held) is dict or type(held) is OrderedDict


def _is_layer_of_torch(module: nn.Module) -> bool:
    kind: Any = type(module)
    return kind.__module__.startswith("torch.nn.") and is_from(kind, "torch")


@cache
def _is_plain(derived: Any, kind: Any) -> bool:
    """Whether a class derived from `kind` overrides none of `_methods(kind)`, and puts no code in the place of an
    attribute: a property, or another descriptor, which Python asks where the module has no such attribute."""
    held = {name: one for part in strangers(derived, kind) for name, one in held_by(part).items()}
    return (
        static(derived, "forward") is static(kind, "forward")
        and not is_more(derived)
        and _methods(kind).isdisjoint(held)
        and not any(_has_code(one) for name, one in held.items() if not name.startswith("__"))
    )


def _has_code(held: Any) -> bool:
    """Whether a class's attribute runs code when it is read, as a property does and a method does not."""
    plain = isinstance(held, types.FunctionType | classmethod | staticmethod)
    return not plain and (static(type(held), "__get__") or static(type(held), "__set__")) is not None


def _as_it_is(module: nn.Module) -> nn.Module:
    now: nn.Module = object.__new__(type(module))
    vars(now).update({name: [*one] if type(one) is list else one for name, one in vars(module).items()})
    if module._modules:
        inside = {name: one if one is None else _as_it_is(one) for name, one in module._modules.items()}
        vars(now)["_modules"] = inside
    return now


def _direct(module: nn.Module) -> dict[str, nn.Parameter]:
    """The trainable parameters that a module holds itself, each once."""
    found: dict[str, nn.Parameter] = {}
    for name, parameter in module._parameters.items():
        if parameter is not None and parameter.requires_grad and not any(parameter is one for one in found.values()):
            found[name] = parameter
    return found
