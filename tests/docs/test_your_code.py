"""The page on changed training code: each block runs before and after the change, by at most five new lines.

What it says of Opacus is tried with Opacus.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import discreet
from discreet.core.errors import Interrupted

pytestmark = pytest.mark.filterwarnings("ignore")

PAGE = (Path(__file__).parents[2] / "docs" / "your-code.md").read_text()
SHARED = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]
CHANGES = {
    part.partition("\n")[0]: re.findall(r"^```diff\n(.*?)^```", part, re.MULTILINE | re.DOTALL)[0]
    for part in PAGE.split("\n## ")[1:]
    if "```diff" in part
}
REFUSED = re.findall(r"^```py\n((?:(?!```)[^\n]*\n)*)```\n\n```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
TRAINER = next(name for name in CHANGES if name.startswith("BERT"))
LORA = """
from peft import LoraConfig, get_peft_model
model = get_peft_model(model, LoraConfig(r=2, fan_in_fan_out={}, task_type="SEQ_CLS"))
"""


@pytest.fixture(autouse=True)
def one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In an empty folder, with one thread: small convolutions wait for each other on a busy machine."""
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def before(change: str) -> str:
    return "".join(line[1:] or "\n" for line in change.splitlines(keepends=True) if line[0] != "+")


def after(change: str) -> str:
    return "".join(line[1:] or "\n" for line in change.splitlines(keepends=True) if line[0] != "-")


def run(code: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run code after what all blocks share; its classes can be pickled, as those of a script."""
    module = ModuleType("your_code")
    monkeypatch.setitem(sys.modules, "your_code", module)
    exec(compile(SHARED + code, "your-code.md", "exec"), vars(module))
    return vars(module)


def published() -> list[Path]:
    return [path.parent for path in Path().glob("*/certificate.json")]


@pytest.mark.parametrize("name", CHANGES)
def test_five_new_lines_make_a_checked_folder(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change = CHANGES[name]
    new, gone = ([line for line in change.splitlines() if line[:1] == sign] for sign in "+-")
    assert 0 < len(new) <= 5
    assert len(gone) >= 1
    assert all(len(line) <= 121 for line in new)
    run(before(change), monkeypatch)
    assert not published()
    Path("private").mkdir()
    monkeypatch.chdir("private")
    run(after(change), monkeypatch)
    (folder,) = published()
    assert discreet.verify(folder, strict=True).accepted


def of_kind(code: str, kind: str) -> str:
    """The block on BERT, with another model."""
    return code.replace('for_model("bert", ', f'for_model("{kind}", bos_token_id=1, eos_token_id=2, ')


@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_models_of_transformers_with_and_without_adapters(
    kind: str, lora: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = after(CHANGES[TRAINER]).replace(
        'for_model("bert", ', f'for_model("{kind}", bos_token_id=1, eos_token_id=2, '
    )
    if lora:
        code = code.replace("rows = [", LORA.format(kind == "gpt2") + "rows = [")
    trainer = run(code, monkeypatch)["trainer"]
    assert any("lora" in one for one, _ in trainer.trained.model.named_parameters()) == lora
    assert discreet.verify(published()[0]).accepted


def test_a_run_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    code = after(CHANGES["Resume"])
    with pytest.raises(Interrupted, match="10 of 120"):
        run(HEARD + code.replace(".run()\n", ".run(callbacks=[stop])\n"), monkeypatch)
    assert not published()
    names = run(HEARD + code.replace(".run()\n", ".run(callbacks=[heard.append])\n"), monkeypatch)
    assert [one.step for one in names["heard"]][:2] == [51, 52]  # the rest of the block was charged, and is lost
    assert discreet.verify(published()[0]).accepted


HEARD = """
import os, signal

heard = []

def stop(told):
    if told.step == 10:
        os.kill(os.getpid(), signal.SIGINT)

"""


@pytest.mark.parametrize(("code", "message"), REFUSED)
def test_what_is_refused_says_what_to_do(code: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(discreet.DiscreetError) as error:
        run(code, monkeypatch)
    assert str(error.value) == message.strip()
    assert len(REFUSED) == 3


def test_batch_norm_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    code = after(CHANGES["A loop, and batch norm"]).replace("discreet.replace_batch_norm(model)\n", "")
    with pytest.raises(discreet.UnsupportedModel) as error:
        run(code, monkeypatch)
    said = re.findall(r"Without the second line it says `(.*?)`", PAGE)[0]
    assert said in str(error.value)
    assert "discreet.replace_batch_norm(model)" in str(error.value)


def test_every_case_is_in_the_first_table() -> None:
    anchors = set(re.findall(r"\]\(#([\w-]+)\)", PAGE.partition("```python")[0])) - {"beside-opacus"}
    titles = {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in re.findall(r"^## (.*)", PAGE, re.M)}
    assert anchors == titles - {"beside-opacus"}


Loss = Callable[[nn.Module, list[Tensor]], Tensor]


def classes(model: nn.Module, batch: list[Tensor]) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1])


def with_opacus(model: nn.Module, rows: Dataset[Any], loss: Loss = classes, batch: int = 40) -> nn.Module:
    """An epoch of Opacus."""
    opacus = pytest.importorskip("opacus", reason="opacus is not installed; it is in the extra dev")
    torch.manual_seed(0)
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader = opacus.PrivacyEngine().make_private(
        module=model,
        optimizer=optimizer,
        data_loader=DataLoader(rows, batch_size=batch),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
    )
    for part in loader:
        optimizer.zero_grad()
        loss(model, part).backward()
        optimizer.step()
    return model


def of_page(name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the block makes before its first new or removed line of training."""
    lines = before(CHANGES[name]).splitlines(keepends=True)
    stop = next(i for i, line in enumerate(lines) if line.startswith(("optimizer =", "rows =")))
    return run("".join(lines[:stop]), monkeypatch)


@pytest.mark.parametrize(
    ("name", "own", "rows"),
    [
        ("A loop, and batch norm", "BatchNorm", "images"),
        ("LSTM", "nn.LSTM", "tokens"),
        ("A vision transformer", "nn.MultiheadAttention", "images"),
    ],
)
def test_opacus_wants_some_modules_replaced(name: str, own: str, rows: str, monkeypatch: pytest.MonkeyPatch) -> None:
    validators = pytest.importorskip("opacus.validators")
    code = before(CHANGES[name]).partition("optimizer =")[0]
    for one, other in PLACED.items():
        assert one in code or "vision" not in name
        code = code.replace(one, other)
    names = run(PLACES + code, monkeypatch)
    data = TensorDataset(names[rows], names["kinds"])
    with pytest.raises(Exception, match=own):
        with_opacus(names["model"], data)
    with_opacus(validators.ModuleValidator.fix(names["model"]), data)


def test_opacus_wants_parameters_in_modules_of_their_own_beside_dropout(monkeypatch: pytest.MonkeyPatch) -> None:
    validators = pytest.importorskip("opacus.validators")
    names = of_page("A vision transformer", monkeypatch)
    model = validators.ModuleValidator.fix(names["model"])
    with pytest.raises(RuntimeError, match="randomness"):
        with_opacus(model, TensorDataset(names["images"], names["kinds"]))


PLACES = """
class Places(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.value = nn.Parameter(value)

    def forward(self, x):
        return x + self.value

"""
PLACED = {
    "self.places = nn.Parameter(": "self.places = Places(",
    "self.body(self.patches(x).flatten(2).transpose(1, 2) + self.places)": (
        "self.body(self.places(self.patches(x).flatten(2).transpose(1, 2)))"
    ),
}
"""The vision transformer of the page, with its places in a module of their own."""


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_opacus_wants_position_ids_where_all_weights_are_trained(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code = of_kind(before(CHANGES[TRAINER]), kind).partition("rows =")[0]

    def loss(model: nn.Module, batch: list[Tensor]) -> Tensor:
        return F.cross_entropy(model(input_ids=batch[0]).logits, batch[1])

    def placed(model: nn.Module, batch: list[Tensor]) -> Tensor:
        places = torch.arange(12).repeat(len(batch[0]), 1)
        return F.cross_entropy(model(input_ids=batch[0], position_ids=places).logits, batch[1])

    names = run(code, monkeypatch)
    rows = TensorDataset(names["tokens"], names["kinds"])
    with pytest.raises(RuntimeError, match="equal size"):
        with_opacus(names["model"], rows, loss)
    with_opacus(run(code, monkeypatch)["model"], rows, placed)
    with_opacus(run(code + LORA.format(kind == "gpt2"), monkeypatch)["model"], rows, loss)


def test_opacus_takes_a_contrastive_loss_whose_rows_depend_on_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    opacus = pytest.importorskip("opacus", reason="opacus is not installed; it is in the extra dev")
    names = run(REFUSED[0][0].partition("plan =")[0], monkeypatch)
    loss, views = names["contrastive"], names["views"]
    with_opacus(nn.Linear(12, 8), TensorDataset(views, names["kinds"]), lambda model, one: loss(model(one[0]), one[1]))
    found = []
    for others in (views[1:4], views[4:7]):
        torch.manual_seed(0)
        model = opacus.GradSampleModule(nn.Linear(12, 8))
        loss(model(torch.cat([views[:1], others])), names["kinds"][:4]).backward()
        found.append(next(model.parameters()).grad_sample[0])
    assert float((found[0] - found[1]).abs().max()) > 1e-3


def test_opacus_runs_dictionaries_and_a_gan_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    names = of_page("Dictionaries and several losses", monkeypatch)
    rows = TensorDataset(names["features"], names["kinds"], names["sizes"])
    with_opacus(names["model"], rows, lambda model, one: names["losses"](model(one[0]), one[1], one[2]))
    names = of_page("A GAN", monkeypatch)
    rows = TensorDataset(names["tokens"] / 50, names["kinds"])
    with_opacus(names["model"], rows, lambda model, one: names["real_or_made"](model(one[0]), one[1]))


def test_opacus_refuses_streams_and_accumulation_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    opacus = pytest.importorskip("opacus", reason="opacus is not installed; it is in the extra dev")
    names = of_page("An iterable data set", monkeypatch)
    with pytest.raises(ValueError, match="not supported for IterableDataset"):
        with_opacus(names["model"], names["Stream"]())
    model = nn.Linear(12, 3)
    model, _, loader = opacus.PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(TensorDataset(names["tokens"] / 50, names["kinds"]), batch_size=10),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
    )
    classes(model, next(iter(loader))).backward()
    with pytest.raises(ValueError, match="not compatible with grad accumulation"):
        classes(model, next(iter(loader))).backward()
