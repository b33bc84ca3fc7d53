"""Refusals of what people often give say what to give instead."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from problems import CLASSES, FEATURES, blobs, linear, tiny_plan, tiny_training
from torch import Tensor, nn

from discreet import EngineOptions, RunOptions, Training
from discreet.clipping import admit_model
from discreet.core.errors import InputError, PrivacyViolation, UnsupportedModel

INPUTS, LABELS = blobs()
RAGGED = [torch.ones(2 + i % 3, FEATURES) for i in range(len(LABELS))]


@pytest.mark.parametrize(
    ("criterion", "width", "targets", "advice"),
    [
        (nn.BCEWithLogitsLoss(), 1, (LABELS > 0).long()[:, None], "give targets.float()"),
        (nn.BCEWithLogitsLoss(), 1, (LABELS > 0).float(), "give targets.unsqueeze(1)"),
        (nn.BCEWithLogitsLoss(), 1, (LABELS > 0).long(), "give targets.unsqueeze(1).float()"),
        (nn.CrossEntropyLoss(), CLASSES, LABELS.int(), "labels are whole numbers: give targets.long()"),
        (nn.CrossEntropyLoss(), CLASSES, LABELS.float(), "labels are whole numbers: give targets.long()"),
        (
            nn.CrossEntropyLoss(),
            CLASSES,
            nn.functional.one_hot(LABELS, CLASSES),
            "of columns of zeros and ones: give targets.float()",
        ),
        (nn.CrossEntropyLoss(), CLASSES, LABELS[:, None], "labels have no axis of their own: give targets.squeeze(1)"),
    ],
)
def test_targets_of_another_kind(tmp_path: Path, criterion: Any, width: int, targets: Tensor, advice: str) -> None:
    model = nn.Linear(FEATURES, width)
    with pytest.raises(InputError) as error:
        tiny_training(tmp_path, model=model, criterion=criterion, data=(INPUTS, targets))
    assert str(error.value).endswith(f"; {advice}")
    mended = eval(advice.rpartition("give ")[2], {"targets": targets})
    tiny_training(tmp_path, model=model, criterion=criterion, data=(INPUTS, mended))


def test_classes_of_a_sequence_are_axis_1(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Unflatten(1, (FEATURES, 1)), nn.Linear(1, CLASSES))  # (n, time, classes)
    labels = LABELS[:, None].expand(-1, FEATURES).contiguous()
    with pytest.raises(InputError, match=r"; classes are axis 1 .* outputs\.transpose\(1, -1\)$"):
        tiny_training(tmp_path, model=model, data=(INPUTS, labels))

    def first(outputs: Tensor, targets: Tensor) -> Tensor:
        return nn.functional.cross_entropy(outputs.transpose(1, -1), targets)

    tiny_training(tmp_path, model=model, criterion=first, data=(INPUTS, labels))


def test_a_warning_of_torch_is_shown_once(tmp_path: Path) -> None:
    """The checks run a loss many times, and torch would warn each time that filters are changed in between."""
    with pytest.warns(UserWarning, match="target size") as told:
        tiny_training(tmp_path, model=nn.Linear(FEATURES, 1), criterion=nn.MSELoss(), data=(INPUTS, LABELS.float()))
    said = [str(one.message) for one in told]
    assert len(set(said)) == len(said) <= 4


@pytest.mark.parametrize("data", [list(zip(RAGGED, LABELS.tolist(), strict=True)), (RAGGED, LABELS)])
def test_rows_of_several_lengths(tmp_path: Path, data: Any) -> None:
    with pytest.raises(InputError, match=r"rows need one shape: pad them \(torch\.nn\.utils\.rnn\.pad_sequence"):
        tiny_training(tmp_path, data=data)


@pytest.mark.parametrize("engine", ["auto", "bookkeeping", "vmap", "reference"])
def test_an_embedding_that_limits_its_weights(tmp_path: Path, engine: str) -> None:
    rows = torch.arange(2 * len(LABELS)).view(-1, 2) % 9
    model = nn.Sequential(nn.Embedding(9, 2, max_norm=1.0), nn.Flatten(), nn.Linear(4, CLASSES))
    with pytest.raises(UnsupportedModel, match=r"'0\.weight' changes .* has max_norm.*leave max_norm out"):
        tiny_training(tmp_path, model=model, data=(rows, LABELS), engine=engine)


class Packed(nn.Module):
    """The last state of sequences of several lengths, as torch packs them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.last = nn.LSTM(FEATURES, 3, batch_first=True), nn.Linear(3, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        sizes = 1 + (x[:, 1:, 0] > 0.5).sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(x, sizes, batch_first=True, enforce_sorted=False)
        return self.last(self.layer(packed)[1][0][-1])  # type: ignore[no-any-return]


def test_packed_sequences(tmp_path: Path) -> None:
    """The mend comes first, and then what runs the model as it is."""
    with pytest.raises(
        UnsupportedModel,
        match=r"^module 'layer' \(LSTM\) got a PackedSequence.*; give it padded sequences, and pick .* by its length; "
        r"as it is, the engine 'vmap' cannot .*use engine='reference'",
    ):
        tiny_training(tmp_path, model=Packed(), data=(torch.rand(len(LABELS), 4, FEATURES), LABELS))


@pytest.mark.parametrize("normed", [nn.utils.spectral_norm, nn.utils.parametrizations.spectral_norm])
def test_spectral_norm(tmp_path: Path, normed: Any) -> None:
    with pytest.raises(UnsupportedModel, match=r"has spectral norm, whose power iteration.*remove it"):
        tiny_training(tmp_path, model=nn.Sequential(normed(linear())))


def test_outputs_with_an_axis_too_many_are_not_taken_for_a_single_class(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"outputs torch.float32 of shape \(1, 3\)"):
        tiny_training(tmp_path, model=nn.Linear(FEATURES, CLASSES), data=(INPUTS[:, None], LABELS))


def test_a_list_of_dictionaries_says_how_to_name_the_fields(tmp_path: Path) -> None:
    rows = [{"x": one, "y": label} for one, label in zip(INPUTS, LABELS, strict=True)]
    with pytest.raises(InputError, match=r"got list of dicts; .*discreet.Columns\(data, target=NAME"):
        tiny_training(tmp_path, data=rows)
    with pytest.raises(InputError, match=r"got list of tuples; several inputs of a row are given as one tensor"):
        tiny_training(tmp_path, data=[(one, one, label) for one, label in zip(INPUTS, LABELS, strict=True)])


def test_weights_without_values_are_named() -> None:
    with pytest.raises(
        UnsupportedModel, match="'weight' is on the device meta, without values; load the weights first"
    ):
        admit_model(nn.Linear(FEATURES, CLASSES, device="meta"))


def test_a_clip_rule_by_its_name_alone_says_what_to_give() -> None:
    with pytest.raises(
        InputError, match=r"clipping is a mapping, as \{.kind.: .per_layer., .norm.: 1.0\}, got 'adaptive'"
    ):
        tiny_plan(clip_norm=None, clipping="adaptive")


@pytest.mark.parametrize("given", [True, "bfloat16"])
def test_autocast_to_what_is_no_type_says_nothing_of_float16(given: Any) -> None:
    with pytest.raises(InputError, match=f"autocast must be torch.bfloat16, got {given!r}$"):
        EngineOptions(autocast=given)


def made(model: nn.Module, run: Path | RunOptions) -> Training:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return Training(tiny_plan(), model, nn.CrossEntropyLoss(), optimizer, (INPUTS, LABELS), run=run)


def test_after_a_stop_of_its_run_a_training_says_how_to_go_on(tmp_path: Path) -> None:
    """As in a notebook, where the model that has trained is at hand, and the one at the start is not."""
    model, folder = linear(), tmp_path / "run"

    def fails(position: object) -> None:
        raise ArithmeticError("of a callback")

    first = copy.deepcopy(model)
    training = made(model, folder)
    with pytest.raises(ArithmeticError):
        training.run(callbacks=[fails])
    with pytest.raises(PrivacyViolation) as told:
        training.run()
    advice = f"run=RunOptions({str(folder)!r}, resume=True)"
    assert str(told.value) == (
        "the model was changed since this Training was made; make both again, the model as at the start: a Training "
        f"with {advice} goes on with the run"
    )
    on = eval(advice.removeprefix("run="), {"RunOptions": RunOptions})
    with pytest.raises(InputError, match="a model that has trained since made again as at the start, or start a new"):
        made(model, on).run()
    assert made(first, on).run().charged_steps == tiny_plan().steps


def test_a_model_that_changed_before_any_run_needs_a_new_training(tmp_path: Path) -> None:
    model = linear()
    training = made(model, tmp_path / "run")
    with torch.no_grad():
        model.weight += 1
    with pytest.raises(PrivacyViolation, match=r"since this Training was made; make a new one$"):
        training.run()


def test_a_run_in_inference_mode_is_refused_before_a_charge(tmp_path: Path) -> None:
    training = tiny_training(tmp_path)
    with torch.inference_mode(), pytest.raises(InputError, match=r"inference_mode\(\).* Nothing was charged"):
        training.run()
    assert not training.folder.path.exists()
    assert training.run().charged_steps == 7
