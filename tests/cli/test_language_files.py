"""`discreet train TEXTS --model FOLDER` on files in all forms: what is read, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from tiny_model_folder import BUDGET, FEW, PUBLIC, model_folder

from discreet.cli.app import run

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("value", [[], ["a", "b"], {"role": "user"}, [{"content": "a"}]])
def test_a_list_is_a_chat_or_refused(value: object, capsys: pytest.CaptureFixture[str]) -> None:
    model_folder(Path("tiny"))
    Path("chats.jsonl").write_text(json.dumps({"review": value}) + "\n")
    command = ["train", "chats.jsonl", "--text", "review", "--unit", "row", "--model", "tiny"]
    assert run([*command, *BUDGET, *FEW]) == 2
    assert "must be a text, or the messages of a chat" in capsys.readouterr().err


def test_a_chat_that_the_template_does_not_take_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Models that were made for chats refuse some, as a message of the system; others have no template."""
    folder = model_folder(Path("tiny"))
    roles = [["user"], ["system", "user"]]
    chats = [[{"role": role, "content": "a film"} for role in one] for one in roles]
    Path("chats.jsonl").write_text("\n".join(json.dumps({"talk": chat}) for chat in chats) + "\n")
    command = ["train", "chats.jsonl", "--text", "talk", "--unit", "row", "--model", "tiny", *BUDGET, *FEW]
    assert run(command) == 2
    assert "row 1 of chats.jsonl is a chat, and the tokenizer of --model has no chat" in capsys.readouterr().err
    template = "{% if messages[0].role != 'user' %}{{ raise_exception('No system role') }}{% endif %}a film"
    (folder / "chat_template.jinja").write_text(template)
    assert run(command) == 2
    refused = "the tokenizer's chat template does not take row 2 of chats.jsonl: No system role; change or remove it"
    assert refused in capsys.readouterr().err
    assert not list(Path().glob("*-private*"))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", '{"review": ' + "[" * 10**5 + "]" * 10**5 + "}", "is not JSON"),
        ("a.jsonl", '{"review": "a \\ud800 film"}', "half of a surrogate pair"),
        ("a.jsonl", '{"review": [{"role": "user", "content": [1]}]}', "messages of a chat"),
        ("a.jsonl", '{"text": "a", "stars": 3}', "row 1 of a.jsonl has no 'review'; it has text, stars: name one of"),
        ("a.jsonl", '{"review": "", "stars": 3}', "row 1 of a.jsonl has no 'review'; remove the row, or fill it in"),
        ("a.parquet", "PAR1 nonsense", "cannot be read as Parquet"),
        ("a.csv", "review\n" + "film" * 2**23, "is not CSV: field larger"),
        ("a.csv", 'review\nA film\n"Open\nA film\n"Dull, long"\nA film', "the row from line 3 of a.csv is not CSV"),
        ("a.csv", 'review\nA film\n"Open\nA film', "the row from line 3 of a.csv is not CSV"),
        ("a.csv", '"review\nA film', "the row from line 1 of a.csv is not CSV"),
    ],
)
def test_a_file_that_is_none_is_refused(name: str, content: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    model_folder(Path("tiny"))
    Path(name).write_text(content + "\n")
    assert run(["train", name, "--text", "review", "--unit", "row", "--model", "tiny", *BUDGET, *FEW]) == 2
    assert said in capsys.readouterr().err


def test_a_long_text_and_a_byte_order_mark_are_read(capfd: pytest.CaptureFixture[str]) -> None:
    """Of each reader; and nothing but the result is said where nobody looks at a terminal."""
    model_folder(Path("tiny"))
    Path("a.csv").write_text("\ufeffreview\n" + "film " * 50_000 + "\n" + "a film\n" * 40)
    Path("b.jsonl").write_text("\ufeff" + '{"review": "a film"}\n' * 40)
    capfd.readouterr()
    command = ["--text", "review", "--unit", "row", "--model", "tiny", *BUDGET, *FEW]
    for name in ("a.csv", "b.jsonl"):
        assert run(["train", name, *command]) == 0
    assert capfd.readouterr().err == ""
    assert run(["train", "b.jsonl", *command, "--verbose", "--out", "third"]) == 0
    beside, engine = capfd.readouterr().err.splitlines()
    assert beside.startswith("b.jsonl was trained on before: b-private (epsilon 8); what is given away adds up.")
    assert "bookkeeping" in engine


def test_transformers_says_nothing_of_its_own_but_that_weights_are_lacking() -> None:
    rows = [{"review": PUBLIC[i % 2], "kind": ("good", "bad")[i % 2]} for i in range(60)]
    Path("reviews.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    weights = model_folder(Path("tiny")) / "model.safetensors"
    kept = {name: one for name, one in load_file(weights).items() if "norm" not in name}
    save_file(kept, weights, {"format": "pt"})
    classes = ["--task", "classification", "--target", "kind", "--classes", "bad,good"]
    command = ["train", "reviews.jsonl", "--text", "review", "--unit", "row", "--model", "tiny", *classes]
    program = [sys.executable, "-m", "discreet", *command, *BUDGET, *FEW]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert "tiny lacks weights of the model, which are drawn at random: model.layers.0.input_layernorm.weight, " in line
