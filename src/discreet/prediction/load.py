"""`load`: from a published folder to an object that predicts, after checking that every file is the certified one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from numpy.typing import ArrayLike
from safetensors import SafetensorError
from safetensors.torch import load as read_tensors
from torch import Tensor, nn

from discreet.certificate.canonical import digest, strict_json
from discreet.certificate.earlier_runs import EarlierRun, remember
from discreet.certificate.files import CERTIFICATE, MODEL, RELEASED, hashed, read
from discreet.certificate.model_spec import ModelSpec, Named
from discreet.certificate.tensorfile import tensor_digests
from discreet.core.errors import InputError, VerificationFailed, first_line, kind_of
from discreet.core.html import fact_lines, fact_table
from discreet.core.rounding import delta_up, places_up
from discreet.prediction.steps import Step, build_step
from discreet.recipes.models.centered import set_center
from discreet.recipes.models.models import CODES, MODELS

_AT_ONCE = 256

_CENTER = "center"
"""The released tensor that is a part of the model, and not a step before it."""

_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


@dataclass(frozen=True, slots=True, repr=False)
class Predictor:
    """A published model in evaluation mode, with the preparation of its inputs and its certificate."""

    model: nn.Module
    spec: ModelSpec
    certificate: dict[str, Any]
    steps: tuple[Step, ...]

    def __repr__(self) -> str:
        return fact_lines("Published model", self._facts())

    def _repr_html_(self) -> str:
        """A summary for notebooks."""
        return fact_table("Published model", self._facts())

    def _facts(self) -> dict[str, object]:
        claim = self.certificate["claim"]
        encoded = "" if self.spec.table is None else ", encoded; predict_table takes a file of rows as they are"
        return {
            "title": None if self.spec.about is None else self.spec.about.title,
            "model": type(self.model).__name__,
            "parameters": f"{sum(tensor.numel() for tensor in self.model.parameters()):,}",
            "rows": None if self.spec.inputs is None else f"of shape {self.spec.inputs}{encoded}",
            "epsilon": f"at most {places_up(claim['epsilon'])} at delta {delta_up(claim['delta'])}",
            "protected": f"one {claim['unit']}, {claim['adjacency']}",
            "started from": ", ".join(one.line for one in EarlierRun.named(self.certificate.get("warm_start"))) or None,
        }

    def scores(self, inputs: Tensor | ArrayLike) -> Tensor:
        """The model's outputs on `inputs` (rows, ...), which are like those of training: shape (rows, outputs).

        Rows are raw, before features; if their shape is known, flat rows will do. Those of a table are encoded, as by
        `encode_table`. A model of your own takes them as in training: floating point in the type of its weights, whole
        numbers (words, codes) as int64.
        """
        rows = self.prepared(inputs)
        with torch.no_grad(), self._known_codes() if self._takes_codes else self._as_in_training(rows):
            found = [self.model(rows[at : at + _AT_ONCE]) for at in range(0, len(rows), _AT_ONCE)]
        if not all(isinstance(part, Tensor) for part in found):
            raise InputError(
                f"this model returns {kind_of(found[0])}, which is no table of scores; run it yourself: "
                "predictor.model(predictor.prepared(rows))"
            )
        return torch.cat(found)

    def prepared(self, inputs: Tensor | ArrayLike) -> Tensor:
        """The inputs of the model itself, from raw rows: shape (rows, ...)."""
        rows = self._rows(inputs)
        for step in self.steps:
            rows = step(rows)
        return rows

    def predict(self, inputs: Tensor | ArrayLike) -> Tensor:
        """The class of each row (rows,), int64; for a model of numbers, its outputs (rows, outputs).

        Of a model of your own, its outputs too, unless it was published with a spec that says `outputs="classes"`.
        """
        found = self.scores(inputs)
        return found.argmax(dim=1) if self.spec.outputs == "classes" else found

    @property
    def _takes_codes(self) -> bool:
        return self.spec.model is not None and self.spec.model.name in CODES

    @property
    def _floats(self) -> torch.dtype:
        """The type of floating-point rows: that of the weights of a model of one's own."""
        own = () if self.spec.model is not None else self.model.parameters()
        return next((one.dtype for one in own if one.is_floating_point()), torch.float32)

    @contextmanager
    def _known_codes(self) -> Iterator[None]:
        try:
            yield
        except IndexError:
            raise InputError("a row has a code that this model does not know; give codes as in training") from None

    @contextmanager
    def _as_in_training(self, rows: Tensor) -> Iterator[None]:
        try:
            yield
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            raise InputError(
                f"the model cannot take rows of {rows.dtype} and shape {tuple(rows.shape[1:])}: {first_line(error)}; "
                "give them as in training, floating point or whole numbers"
            ) from error

    def _rows(self, inputs: Tensor | ArrayLike) -> Tensor:
        try:
            given = torch.as_tensor(inputs)
            whole = self._takes_codes or (self.spec.model is None and given.dtype in _WHOLE)
            rows = given.to(torch.int64 if whole else self._floats)
        except (TypeError, ValueError, RuntimeError):
            raise InputError(
                "predict needs an array of numbers with one entry for each row; rows of a frame, in the words of the "
                "table, go to discreet.prediction.predict_frame(predictor, frame)"
            ) from None
        if self._takes_codes and (not torch.equal(rows.to(given.dtype), given) or bool((rows < 0).any())):
            raise InputError("this model takes whole numbers from 0 on, which it looks up; other numbers are no input")
        shape = self.spec.inputs
        if rows.dim() < 1 or len(rows) == 0:
            raise InputError(f"predict needs at least one row, got an array of shape {tuple(rows.shape)}")
        if shape is None:
            return rows
        if rows.shape[1:] != shape and rows[0].numel() != torch.Size(shape).numel():
            raise InputError(f"this model takes rows of shape {shape}, but these have shape {tuple(rows.shape[1:])}")
        return rows.reshape(-1, *shape)


def refuse_other(predictor: object) -> None:
    """Refuse what `load` has not returned, such as the name of a folder."""
    if not isinstance(predictor, Predictor):
        shown = f"{str(predictor)!r:.80}" if isinstance(predictor, str | Path) else kind_of(predictor)
        raise InputError(f"give the published model, discreet.load(FOLDER), in the place of {shown}")


def load(folder: str | Path, model: nn.Module | None = None) -> Predictor:
    """Read a published folder; nothing in it is run, and no pickle is read.

    Every file must have the hash that the certificate states, else `VerificationFailed`. The model is built by the name
    in model.json; pass your own as `model`, with tensors of the same names, shapes and types. This does not recompute
    the claim: that is `discreet.verify`.
    """
    if model is not None and not isinstance(model, nn.Module):
        name = getattr(model, "__name__", type(model).__name__)
        raise InputError(
            f"model={name} is no model; " + (f"build it: model={name}(...)" if callable(model) else "give an nn.Module")
        )
    folder = Path(folder)
    facts = strict_json(read(folder / CERTIFICATE), str(folder / CERTIFICATE))
    content = _certified(folder, facts)
    spec = ModelSpec.from_json(content["model.json"])
    try:
        state = read_tensors(content[MODEL])
    except SafetensorError as error:
        raise InputError(f"{folder / 'model.safetensors'} cannot be read: {error}") from None
    released = read_tensors(content[RELEASED]) if RELEASED in content else {}
    if model is None:
        model = _build(spec, state)
    _check_tensors(model, state)
    model.load_state_dict(state)
    if _CENTER in released:
        set_center(model, released[_CENTER])
    elif spec.model is not None and spec.model.arguments.get("centered"):
        raise InputError(f"{folder} lacks the center that its model subtracts; ask for the folder again")
    _remember(folder, facts, state, tensor_digests(content[MODEL]))
    bought = tensor_digests(content[RELEASED]) if released else {}
    remember([bought[name] for name, one in released.items() if _varies(one)], (EarlierRun.of_certificate(facts),))
    return Predictor(model.eval(), spec, facts, tuple(build_step(step, released) for step in spec.preprocessing))


def _certified(folder: Path, facts: dict[str, Any]) -> dict[str, bytes]:
    """The content of all files that the certificate names, each with the hash stated there."""
    try:
        wanted = {name: facts["files"][name] for name in hashed(facts)} | {MODEL: facts["model"]["sha256"]}
        if "released" in facts:
            wanted[RELEASED] = facts["released"]["sha256"]
    except (LookupError, TypeError, ValueError):
        raise InputError(f"{folder} has a certificate without hashes of its files; ask for the folder again") from None
    found = {name: read(folder / name) for name in sorted(wanted)}
    for name, content in found.items():
        if digest(content) != wanted[name]:
            raise VerificationFailed(
                f"{folder / name} is not the file that the certificate is about; ask for the folder again"
            )
    return found


def _remember(folder: Path, facts: dict[str, Any], state: dict[str, Tensor], digests: dict[str, str]) -> None:
    """Note whose release these tensors are, for a run that starts from them.

    Those that the run did not move may be of the runs that it started from; zeros and ones are nobody's.
    """
    varied = {name for name, one in state.items() if _varies(one)}
    try:
        own, earlier = EarlierRun.of_certificate(facts), EarlierRun.named(facts.get("warm_start"))
        initial, private = facts["model"]["initial"], set(facts["model"]["private"])
        moved = {name for name in private if digests[name] != initial[name]}
        remember([digests[name] for name in moved], (own, *earlier))
        remember([digests[name] for name in varied - moved], earlier)
    except (LookupError, TypeError, ValueError):
        raise InputError(
            f"{folder} has a certificate that does not say which run made which tensors; ask for the folder again"
        ) from None


def _varies(tensor: Tensor) -> bool:
    return tensor.numel() > 1 and bool((tensor != tensor.flatten()[0]).any())


def _build(spec: ModelSpec, state: dict[str, Tensor]) -> nn.Module:
    """The named model. Its tensors are compared with the file before memory is allocated."""
    if spec.language is not None:
        raise InputError(
            "this is a language model; name the folder of its base model: discreet predict DIR TEXTS --model BASE "
            "gives classes, discreet generate DIR --model BASE texts"
        )
    if spec.model is None:
        raise InputError(
            f"this model is a module of its maker's own ({str(spec.module)[:80]}); build it in Python and give it to "
            "discreet.load(DIR, model=...), or to discreet.prediction.export_onnx(DIR, FILE, model=...)"
        )
    with torch.device("meta"):
        _check_tensors(_named_model(spec.model), state)
    return _named_model(spec.model)


def _named_model(named: Named) -> nn.Module:
    if named.name not in MODELS:
        raise InputError(f"model.json: unknown model {named.name!r:.80}; known: {', '.join(MODELS)}")
    try:
        return MODELS[named.name](**named.arguments)
    except (TypeError, ValueError, RuntimeError) as error:
        reason = first_line(error)
        raise InputError(f"model.json: {named.name} cannot have these arguments: {reason}") from None


def _check_tensors(model: nn.Module, state: dict[str, Tensor]) -> None:
    """Refuse a model whose tensors differ from the published ones in name, shape or type."""

    def described(tensors: dict[str, Tensor]) -> dict[str, tuple[Sequence[int], torch.dtype]]:
        return {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}

    wanted, found = described(state), described(model.state_dict())
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            raise InputError(
                f"the model is not the published one: tensor {name!r:.80} is {_shown(found.get(name))} in the model "
                f"and {_shown(wanted.get(name))} in the folder"
            )


def _shown(tensor: tuple[Sequence[int], torch.dtype] | None) -> str:
    return "missing" if tensor is None else f"{str(tensor[1]).removeprefix('torch.')} {list(tensor[0])}"
