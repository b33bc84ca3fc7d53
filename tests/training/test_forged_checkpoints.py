"""Checkpoints that another program changed, or that are of another optimizer, and tensors that share memory."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from problems import linear, tiny_plan, tiny_training
from torch import Tensor

from discreet.core.errors import InputError
from discreet.distributed.ranks import Ranks
from discreet.ledger import Ledger
from discreet.training import Training
from discreet.training.run import checkpoint_files, opening
from discreet.training.run.checkpoint import Checkpoint, read_checkpoint, save_checkpoint
from discreet.training.run.checkpoint_files import load_checkpoint
from discreet.training.run.state_json import encoded

Make = Callable[[Iterator[torch.nn.Parameter]], torch.optim.Optimizer]


def again(folder: Path, state: dict[str, Any]) -> dict[str, Any]:
    """The state after it was written and read."""
    index = folder / "checkpoint.json"
    save_checkpoint(index, lambda: Checkpoint("run", 1, state, {}, None, ()), Ranks(), shared_out=False)
    found = read_checkpoint(load_checkpoint(index), Ranks(), lambda _, tensor: tensor)
    assert found is not None
    return found.model


def start(folder: Path, make: Make, *, resume: bool = False) -> Training:
    model = linear()
    optimizer = make(model.parameters())
    plan = tiny_plan(steps=20)
    return tiny_training(folder, model=model, optimizer=optimizer, plan=plan, stream=None, resume=resume)


def interrupted(folder: Path, make: Make = lambda of: torch.optim.SGD(of, lr=0.1)) -> Training:
    training = start(folder, make)
    with training.session() as session:
        for _ in range(3):
            with session.step() as step:
                step.add_all(training.criterion)
        training.save(session)
    return training


def entries(training: Training) -> int:
    ledger = Ledger(training.folder.ledger, create=False)
    try:
        return len(ledger.entries(training.folder.run))
    finally:
        ledger.close()


RULES: dict[str, Make] = {
    "SGD": lambda of: torch.optim.SGD(of, lr=0.1),
    "SGD with nesterov": lambda of: torch.optim.SGD(of, lr=0.1, momentum=0.9, nesterov=True),
    "Adam": lambda of: torch.optim.Adam(of, lr=0.1),
    "Adam with amsgrad": lambda of: torch.optim.Adam(of, lr=0.1, amsgrad=True),
    "AdamW": lambda of: torch.optim.AdamW(of, lr=0.1),
    "RAdam": lambda of: torch.optim.RAdam(of, lr=0.1),
}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SGD", "SGD with nesterov"),
        ("SGD", "Adam"),
        ("Adam", "AdamW"),
        ("Adam", "RAdam"),
        ("Adam", "Adam with amsgrad"),
        ("Adam with amsgrad", "Adam"),
    ],
)
def test_another_optimizer_is_refused_before_the_attempt_is_noted(tmp_path: Path, one: str, other: str) -> None:
    training = interrupted(tmp_path, RULES[one])
    before = entries(training)
    with (
        pytest.raises(InputError, match=rf"of {one}\b.*, not of {other}\b.*; resume the run with"),
        start(tmp_path, RULES[other], resume=True).session(),
    ):
        pass
    assert entries(training) == before
    with start(tmp_path, RULES[one], resume=True).session():
        assert entries(training) == before + 1


def test_how_an_optimizer_computes_may_change(tmp_path: Path) -> None:
    interrupted(tmp_path, RULES["Adam"])
    with start(tmp_path, lambda of: torch.optim.Adam(of, lr=0.1, foreach=False), resume=True).session():
        pass


def swapped(part: Path) -> None:
    content = bytearray(part.read_bytes())
    content[-4:] = b"\0\0\xc8B"
    part.write_bytes(content)


@pytest.mark.parametrize(
    ("change", "words"), [(swapped, "changed, cut, or is of another"), (Path.unlink, "no such file")]
)
def test_what_is_read_is_what_was_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None], words: str
) -> None:
    """A part is changed, or goes, after the index and its parts were looked at."""
    training = interrupted(tmp_path)
    before = entries(training)
    made = start(tmp_path, RULES["SGD"], resume=True)
    real = opening.remove_other_parts

    def after(index: Path, parts: Any, left: Any) -> None:
        real(index, parts, left)
        change(index.with_name(parts[0].file))

    monkeypatch.setattr(opening, "remove_other_parts", after)
    with pytest.raises(InputError, match=words) as raised, made.session():
        pass
    assert "\n" not in str(raised.value)
    assert entries(training) == before


def test_a_part_is_read_from_the_file_that_was_opened(tmp_path: Path) -> None:
    """One that takes its name later is not read."""
    training = interrupted(tmp_path)
    index = load_checkpoint(training.folder.checkpoint)
    assert index is not None
    part = training.folder.path / index.parts[0].file
    with index.open() as numbers:
        before = numbers("model.weight")
        (other := tmp_path / "other").write_bytes(part.read_bytes())
        swapped(other)
        other.replace(part)
        assert torch.equal(numbers("model.weight"), before)


def tensors_in(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        if "tensor" in tree:
            yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for one in tree:
            yield from tensors_in(one)


FORGERIES: dict[str, dict[str, Any]] = {
    "a class in the place of a type": {"dtype": "Tensor"},
    "a function in the place of a type": {"dtype": "load"},
    "a number in the place of a type": {"dtype": 3},
    "strides past the end": {"strides": [2**40, 2**40]},
    "strides of another shape": {"strides": [1]},
    "less than no rows": {"shape": [-1, -1]},
    "text as a shape": {"shape": "22"},
    "another shape": {"shape": [5, 5]},
    "another kind of numbers": {"dtype": "complex64"},
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_index_is_one_error(tmp_path: Path, forgery: str) -> None:
    training = interrupted(tmp_path)
    before = entries(training)
    forge(training, lambda facts: [one.update(FORGERIES[forgery]) for one in tensors_in(facts["state"])])
    with (
        pytest.raises(InputError, match="checkpoint") as raised,
        start(tmp_path, RULES["SGD"], resume=True).session(),
    ):
        pass
    assert "\n" not in str(raised.value)
    assert entries(training) == before


@pytest.mark.parametrize("state", [{}, {"dict": []}, {"set": []}, [], {"dict": [["model"]]}, 3])
def test_a_forged_state_is_one_error(tmp_path: Path, state: Any) -> None:
    training = interrupted(tmp_path)
    forge(training, lambda facts: facts.update(state=state))
    with (
        pytest.raises(InputError, match="the state in the checkpoint is not one that a run has written"),
        start(tmp_path, RULES["SGD"], resume=True).session(),
    ):
        pass


def forge(training: Training, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the index, and give it the SHA-256 that it has then."""
    facts = json.loads(training.folder.checkpoint.read_text())
    del facts["sha256"]
    change(facts)
    training.folder.checkpoint.write_text(json.dumps(facts | {"sha256": checkpoint_files._digest(facts)}))


def test_views_that_read_the_same_memory_in_other_ways_are_kept_apart(tmp_path: Path) -> None:
    z = torch.tensor([1 + 2j, 3 - 4j])
    state = {"z": z, "conjugate": z.conj(), "part": z.imag, "negative": z.conj().imag}
    found = again(tmp_path, state)
    for name, value in state.items():
        assert torch.equal(found[name], value.resolve_conj().resolve_neg())


def test_a_name_that_is_taken_is_not_given_again(tmp_path: Path) -> None:
    state: dict[str, Any] = {"a.b (1)": torch.ones(1), "a.b": torch.full((1,), 2.0)}
    state |= {"a": {"b": torch.full((1,), 3.0), "b (1)": torch.full((1,), 4.0)}}
    found = again(tmp_path, state)
    values = found["a.b (1)"], found["a.b"], found["a"]["b"], found["a"]["b (1)"]
    assert [float(one) for one in values] == [1.0, 2.0, 3.0, 4.0]


class Wrapper(Tensor):
    """A tensor without memory of its own."""

    @staticmethod
    def __new__(cls, inner: Tensor) -> "Wrapper":
        made: Wrapper = Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)  # type: ignore[attr-defined]
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("value", [Wrapper(torch.ones(2)), torch.ones(2, device="meta")], ids=["wrapper", "meta"])
def test_a_tensor_without_numbers_is_refused_by_name(value: Tensor) -> None:
    with pytest.raises(InputError, match=r"held is a .* without numbers of its own"):
        encoded({"held": value})
