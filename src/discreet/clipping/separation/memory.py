"""All that a model or a loss remembers beside its parameters (attributes, caches, buffers), to detect changes."""

from __future__ import annotations

import contextlib
import copyreg
import logging
import struct
import sys
import types
import warnings
import weakref
from collections import OrderedDict, deque
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from discreet.clipping.losses import holds_nothing, is_of_torch
from discreet.clipping.separation.glance import Glance, hooks_of, is_more, is_more_than_empty

_PLAIN = frozenset({int, str, bytes, bool, type(None), type(...), type(NotImplemented)})

_AS_THEMSELVES = (
    *(type, types.FunctionType, types.ModuleType, types.CodeType, logging.Logger),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
)
"""Types that `copy.deepcopy` does not copy, and globals (see `_is_itself`)."""

_UNCHANGING: tuple[Any, ...] = (*_PLAIN, float, complex, *_AS_THEMSELVES)
"""Types whose objects stay as they are."""

_OF_TORCH = frozenset(
    {
        *("_parameters", "_modules", "_is_full_backward_hook", "_non_persistent_buffers_set"),
        *("_load_state_dict_pre_hooks", "_load_state_dict_post_hooks", "_state_dict_hooks", "_state_dict_pre_hooks"),
    }
)
"""Attributes of modules that other code here reads, or that carry no information."""

_FEW, _WORDS = 4096, {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Memory:
    """All that modules and objects hold now, except the numbers of the parameters of the first one, `model`.

    This is what `copy.deepcopy` copies, by value: `__dict__`, `__slots__`, and the result of `__reduce_ex__`; also the
    strides of tensors and arrays, whose memory they share, hooks, and how often torch wrote to them. An object that can
    neither be walked nor reduced counts as always changed. Losses of torch without weights hold nothing. Left out are
    globals, attributes of classes, closures, which of several equal numbers or texts it is, and, unless `tensors`, all
    of tensors but their types.
    """

    def __init__(self, model: object, *others: object, tensors: bool = True) -> None:
        self._tensors, self._model, self._again = tensors, model, 0
        self._glance: Glance | None = None
        self._rest: list[Any] = []  # found in what a glance leaves out
        self._parameters = {id(one): one for one in model.parameters()} if isinstance(model, nn.Module) else {}
        self._found = self._copied(model, *_holding(others))

    def is_kept(self, model: object, *others: object) -> bool:
        """Whether the objects still hold the same."""
        if self._glance is not None and model is self._model and self._glance.is_kept(*others):
            return self._holds(self._rest, *self._glance.rest)
        kept = self._holds(self._found, model, *_holding(others))
        self._again += 1
        if kept and self._again == 1 and isinstance(model, nn.Module):  # next time a glance can tell
            self._glance = Glance.of(_UNCHANGING, model, *others)
            self._rest = [] if self._glance is None else self._copied(*self._glance.rest)
        return kept

    def _copied(self, *objects: object) -> list[Any]:
        found = listed(self._parameters, objects, self._tensors)
        return [one.clone() if isinstance(one, Tensor) else one for one in found]

    def _holds(self, before: list[Any], *objects: object) -> bool:
        return all_same(before, listed(self._parameters, objects, self._tensors))


def same_values(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are equal bit by bit, so that NaN equals NaN."""
    return alike(one, other) and _equal(bits(one), bits(other))


def alike(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape, type and device."""
    return (one.shape, one.dtype, one.device) == (other.shape, other.dtype, other.device)


def holds_part_of(model: nn.Module, criterion: object) -> bool:
    """Whether a loss holds the model, or a module or parameter of the model."""
    walk = _Walk({})
    if not is_of_torch(criterion):
        walk.into(criterion)
    return any(id(one) in walk.places for one in (*model.modules(), *model.parameters()))


class Unknown:
    """An object that cannot be read, which equals nothing, not even itself."""


def same(one: Any, other: Any) -> bool:
    """Whether two entries of a list made by `listed` are equal; of tensors all bits are compared."""
    if one is other:
        return True
    if type(one) is not type(other) or isinstance(one, (type, Unknown)):
        return False  # a class may say that it equals another one
    return _same_bits(one, other) if isinstance(one, Tensor) else bool(one == other)


def all_same(ones: list[Any], others: list[Any]) -> bool:
    """Whether two lists made by `listed` are equal."""
    return len(ones) == len(others) and all(map(same, ones, others))


def _same_bits(one: Tensor, other: Tensor) -> bool:
    return alike(one, other) and _equal(one, other)


def _equal(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors of integers, alike in shape, type and device, are equal."""
    if one.device.type == "cpu" and one.numel() > _FEW:  # where NumPy takes a fifth of the time
        return bool((one.numpy() == other.numpy()).all())
    return torch.equal(one, other)


def _is_itself(value: object) -> bool:
    """Whether an object is a global one or of a type that `copy.deepcopy` does not copy."""
    if type(value) in (types.ModuleType, logging.Logger) or not isinstance(value, types.ModuleType | logging.Logger):
        return isinstance(value, _AS_THEMSELVES)
    if isinstance(value, logging.Logger):
        return value is value.root or logging.Logger.manager.loggerDict.get(value.name) is value
    return sys.modules.get(value.__name__) is value


def bits(tensor: Tensor) -> Tensor:
    """The bits of the numbers as integers, so that NaN equals NaN, and zero differs from minus zero."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.resolve_neg().view(_WORDS[tensor.element_size()])


def writes_to(tensor: Tensor) -> int:
    """Torch's count of writes to a tensor; inference tensors have none."""
    return 0 if tensor.is_inference() else tensor._version


def _unwarned(kind: type) -> contextlib.AbstractContextManager[object]:
    """Silences Python's warning that later versions do not reduce iterators of itertools."""
    if kind.__module__ != "itertools":  # changing the filters makes Python show all other warnings again
        return contextlib.nullcontext()
    return warnings.catch_warnings(action="ignore", category=DeprecationWarning)


def listed(parameters: dict[int, nn.Parameter], objects: tuple[object, ...], tensors: bool) -> list[Any]:
    """Everything that objects hold, in a fixed order. `parameters`: by id, those whose numbers are left out."""
    walk = _Walk(parameters, tensors=tensors)
    try:
        for one in objects:
            walk.into(one)
    except Exception:  # an object may raise any error
        return [Unknown()]
    return walk.found


def _holding(objects: tuple[object, ...]) -> list[object]:
    """Those that are no losses of torch without weights, which hold nothing."""
    return [one for one in objects if not holds_nothing(one)]


class _Walk:
    """Lists what objects hold, in the order of the walk; an object that occurs again is listed by its place."""

    def __init__(self, parameters: dict[int, nn.Parameter], *, tensors: bool = True) -> None:
        self.found: list[Any] = []
        self._tensors = tensors
        self._parameters, self.places = parameters, dict[Any, int]()
        for one in parameters.values():
            with contextlib.suppress(Exception):  # a tensor of another layout, or one without memory
                self._place(one.untyped_storage().data_ptr())
        self._alive: list[object] = []
        """Objects met or made during the walk, kept so that no other object gets their id."""

    def into(self, value: Any) -> None:
        """List what one object holds."""
        kind, found = type(value), self.found  # `__class__` may be any other
        if kind in _PLAIN:
            found += (kind, value)
            return
        if kind is float or kind is complex:
            found.append(struct.pack("dd", value.real, value.imag))  # NaN has a sign
            return
        if (place := self.places.get(id(value))) is not None:
            found.append(place)
            return
        self.places[id(value)] = len(self.places)
        self._alive.append(value)
        attributes = getattr(value, "__dict__", None)  # read first: some objects create it now, and reduce to it
        if kind is list or kind is tuple or kind is deque:
            found += (kind, len(value), getattr(value, "maxlen", None))
            for one in list(value):
                self.into(one)
        elif kind is dict or kind is OrderedDict:
            self._mapping(value)
        elif isinstance(value, nn.Module):
            self._module(value)
        elif isinstance(value, Tensor):
            self._tensor(value)
        elif _is_itself(value):
            found.append(value)
        else:
            found.append(kind)
            self._other(value)
        if attributes and not isinstance(value, nn.Module) and not _is_itself(value):
            self._mapping(attributes)

    def _mapping(self, value: dict[Any, Any]) -> None:
        self.found.append(len(value))
        for key, one in list(value.items()):
            self.into(key)
            self.into(one)

    def _module(self, module: nn.Module) -> None:
        found, into = self.found, self.into
        found.append(type(module))
        for name, one in list(module.__dict__.items()):
            if name not in _OF_TORCH:
                found.append(name)
                kind = type(one)
                if kind in _PLAIN:
                    found += (kind, one)
                elif not (kind is OrderedDict or kind is dict) or is_more_than_empty(one):  # most have no hooks
                    into(one)
        self._slots(module)
        if is_more(type(module)):
            self._reduced(module)
        self._mapping(module._parameters)
        self._mapping(module._modules)

    def _tensor(self, tensor: Tensor) -> None:
        self.found.append(type(tensor))
        if not self._tensors:
            return
        with torch._C.DisableTorchFunctionSubclass():
            self._slots(tensor)
            self.found.append(tensor.requires_grad)
            for hooks in hooks_of(tensor):
                self.into(hooks)
            if tensor.is_leaf:
                self.into(tensor.grad)  # None unless the model ran its own backward pass
            try:
                memory = tensor.untyped_storage()
                place = self._place(memory.data_ptr())
                self.found += (place, memory.nbytes(), tensor.storage_offset(), tensor.shape, tensor.stride())
                if id(tensor) not in self._parameters:
                    self.found += (writes_to(tensor), tensor.dtype, bits(tensor.detach()))
            except Exception:  # a tensor of another layout, or one without memory
                self._reduced(tensor)

    def _place(self, address: int) -> int:
        """The place where memory of this address was met first."""
        return self.places.setdefault(("memory", address), len(self.places))

    def _array(self, array: Any) -> None:
        """List an array; a type of its own may say anything of itself."""
        plain, root = np.ndarray.view(array, np.ndarray), array
        while isinstance(root.base, np.ndarray):
            root = root.base
        self.found += (plain.shape, plain.strides, plain.flags.writeable, self._place(root.ctypes.data))
        self.into(plain.dtype)
        if plain.dtype.hasobject:
            self.into(plain.tolist())
        else:
            self.found.append(plain.tobytes())
        self._slots(array)

    def _other(self, value: Any) -> None:
        """List an object of any other type: its own state, and what it would be copied from."""
        if isinstance(value, np.ndarray):
            self._array(value)
        elif isinstance(value, torch.Generator):
            self.found.append(value.get_state())
        elif isinstance(value, weakref.ref):
            self.into(value())
        elif isinstance(value, types.MethodType | types.BuiltinFunctionType):
            self.found.append(value.__name__)
            self.into(getattr(value, "__func__", None))
            self.into(value.__self__)
        elif isinstance(value, set | frozenset) and value.__class__ in (set, frozenset):
            self.into(list(value))
        else:
            self._slots(value)
            self._reduced(value)

    def _slots(self, value: Any) -> None:
        for name in copyreg._slotnames(value.__class__):  # type: ignore[attr-defined]
            with contextlib.suppress(AttributeError):
                one = getattr(value, name)
                self.found.append(name)
                self.into(one)

    def _reduced(self, value: Any) -> None:
        """List what `copy.deepcopy` would copy an object from; functions among it are listed as they are."""
        try:
            with _unwarned(value.__class__):
                special = copyreg.dispatch_table.get(value.__class__)
                parts = special(value) if special else value.__reduce_ex__(4)
            if isinstance(parts, str):
                self.found.append(parts)
                return
            parts = [list(one) if place in (3, 4) and one is not None else one for place, one in enumerate(parts)]
        except Exception:  # an object may raise any error
            self.found.append(Unknown())
            return
        for one in parts:
            self.into(one)
