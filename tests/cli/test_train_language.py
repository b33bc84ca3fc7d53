"""`discreet train TEXTS --model FOLDER` from texts to a verified folder, `discreet generate` from it, and refusals."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from review_files import write_reviews
from safetensors.torch import load_file
from tiny_model_folder import BUDGET, FEW, PUBLIC, model_folder, transformers

from discreet.cli.app import run
from discreet.jobs.language.generation import Writer

pytestmark = pytest.mark.filterwarnings("ignore")


def test_adapters_from_json_lines_that_write_texts(capsys: pytest.CaptureFixture[str]) -> None:
    write_reviews("reviews.jsonl")
    write_reviews("public.csv", 10)
    model_folder(Path("tiny"))
    command = ["train", "reviews.jsonl", "--text", "review", "--unit", "row", "--model", "tiny", "--lora", "2"]
    assert run([*command, *BUDGET, *FEW, "--test", "public.csv", "--title", "Reviews"]) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert "reviews-private: certified epsilon" in said
    assert ", public test loss " in said
    assert run(["verify", "reviews-private", "--strict"]) == 0
    facts = json.loads(Path("reviews-private/certificate.json").read_text())
    assert facts["base"]["name"] == "tiny"
    assert "Reviews" in Path("reviews-private/README.md").read_text()
    capsys.readouterr()
    asked = ["generate", "reviews-private", "--model", "tiny", "--prompt", "a film", "--rows", "20", "--length", "5"]
    assert run([*asked, "--out", "texts.csv"]) == 0
    assert "no further cost" in capsys.readouterr().err
    with Path("texts.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 20
    assert all(row["text"].startswith("a film") for row in rows)
    assert float(rows[0]["epsilon"]) >= facts["claim"]["epsilon"]
    assert run(asked) == 0
    assert capsys.readouterr().out.splitlines() == [row["text"] for row in rows]  # the same seed
    model_folder(Path("other"), seed=1)
    assert run(["generate", "reviews-private", "--model", "other", "--prompt", "a"]) == 2
    assert "is not the model 'tiny' that these adapters belong to" in capsys.readouterr().err


def test_texts_are_as_long_as_the_model_reads(capsys: pytest.CaptureFixture[str]) -> None:
    write_reviews("reviews.jsonl")
    model_folder(Path("tiny"))
    command = ["train", "reviews.jsonl", "--text", "review", "--unit", "row", "--model", "tiny", "--lora", "2"]
    assert run([*command, *BUDGET, *FEW[:-2], "--length", "65"]) == 2
    assert "--length 65 is more than the 64 tokens that the model reads;" in capsys.readouterr().err
    assert run([*command, *BUDGET, *FEW[:-2]]) == 0, capsys.readouterr().err
    assert json.loads(Path("reviews-private/model.json").read_text())["language"]["length"] == 64
    asked = ["generate", "reviews-private", "--model", "tiny", "--prompt"]
    assert run([*asked, "a film"]) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert run([*asked, "a film", "--length", "63"]) == 2
    assert "the prompt has 2 of them: 63 more do not fit; give --length 62 or less" in capsys.readouterr().err
    assert run([*asked, "a film", "--rows", "1000", "--out", "nowhere/texts.csv"]) == 2  # before they are written
    said = capsys.readouterr().err
    assert "cannot write nowhere/texts.csv: there is no folder nowhere; name another file with --out" in said
    assert "post-processing" not in said
    assert run([*asked, "film " * 64]) == 2
    assert "the prompt has 64 tokens, and the model reads 64" in capsys.readouterr().err


def test_all_weights_of_a_classifier_by_author_from_parquet(capsys: pytest.CaptureFixture[str]) -> None:
    """The result line says what one answer for all public rows would reach, as it does for tables."""
    write_reviews("reviews.parquet")
    write_reviews("public.csv", 11)  # six of the one class, five of the other
    model_folder(Path("tiny"))
    command = ["train", "reviews.parquet", "--text", "review", "--target", "kind", "--task", "classification"]
    options = ["--classes", "n,p", "--unit", "author", "--model", "tiny", "--set", "rows_per_unit=2"]
    assert run([*command, *options, "--test", "public.csv", *BUDGET, *FEW]) == 0, capsys.readouterr().err
    said, warned = capsys.readouterr()
    (accuracy,) = re.findall(r", public test accuracy ([\d.]+)% \(one answer for all rows: 54\.5%\)", said)
    assert ("no better than one answer" in warned) == (float(accuracy) <= 54.5)
    assert run(["verify", "reviews-private", "--strict"]) == 0
    assert json.loads(Path("reviews-private/certificate.json").read_text())["claim"]["unit"] == "user"


def test_a_whole_model_writes_texts(capsys: pytest.CaptureFixture[str]) -> None:
    write_reviews("reviews.csv")
    model_folder(Path("tiny"))
    command = ["train", "reviews.csv", "--text", "review", "--unit", "row", "--model", "tiny", "--out", "out"]
    budget = ["--epsilon", "8", "--population", "60"]
    assert run([*command, *budget, *FEW, "--set", "reduction=sum"]) == 0, capsys.readouterr().err
    assert json.loads(Path("out/certificate.json").read_text())["claim"]["delta"] == 0.01
    assert run(["generate", "out", "--model", "tiny", "--prompt", "a film", "--temperature", "0.5"]) == 0
    assert run(["generate", "out", "--model", "tiny", "--prompt", "a film", "--chat"]) == 2
    assert "has no chat template" in capsys.readouterr().err
    Path("out/model.safetensors").write_bytes(b"")
    assert run(["generate", "out", "--model", "tiny", "--prompt", "a film"]) == 1


def test_a_second_run_on_the_texts_says_that_it_adds_up(capsys: pytest.CaptureFixture[str]) -> None:
    """By the run folders beside, of tables too; a shared ledger adds up by itself."""
    write_reviews("reviews.csv")
    model_folder(Path("tiny"))
    text = ["train", "reviews.csv", "--text", "review", "--unit", "row", *BUDGET]
    words = ["--target", "kind", "--classes", "p,n", "--set", "steps=2", "--out", "words"]
    model = ["--model", "tiny", *FEW]
    assert run([*text, *words]) == 0, capsys.readouterr().err
    for out, said in (("one", "words (epsilon 8);"), ("two", "one (epsilon 8), words (epsilon 8);")):
        capsys.readouterr()
        assert run([*text, *model, "--out", out]) == 0
        assert f"reviews.csv was trained on before: {said} what is given away adds up" in capsys.readouterr().err
    assert run([*text, *model, "--out", "three", "--ledger", "l.sqlite", "--dataset-id", "films"]) == 0
    assert "trained on before" not in capsys.readouterr().err


def test_all_weights_are_trained_in_single_precision(capsys: pytest.CaptureFixture[str]) -> None:
    """Also those of a folder in half precision, which would round small steps away; and they are loaded so."""
    write_reviews("reviews.csv")
    folder = model_folder(Path("tiny"))
    transformers.AutoModelForCausalLM.from_pretrained(folder).bfloat16().save_pretrained(folder)
    command = ["train", "reviews.csv", "--text", "review", "--unit", "row", "--model", "tiny", *BUDGET, *FEW]
    assert run(command) == 0, capsys.readouterr().err
    begun, found = load_file(folder / "model.safetensors"), load_file("reviews-private/model.safetensors")
    assert {one.dtype for one in begun.values()} == {torch.bfloat16}
    assert {one.dtype for one in found.values()} == {torch.float32}
    assert not any(torch.equal(one.float(), found[f"inner.{name}"]) for name, one in begun.items())
    inner = Writer.of(Path("reviews-private"), folder).model
    assert all(torch.equal(one, found[f"inner.{name}"]) for name, one in inner.named_parameters())


def test_a_text_is_cut_by_itself_and_a_chat_goes_through_its_template() -> None:
    from discreet.jobs.language.private_texts import tokens_of

    tokenizer = transformers.AutoTokenizer.from_pretrained(model_folder(Path("tiny")))
    whole = tokens_of(tokenizer, PUBLIC[0], 20, ends=True)["input_ids"]
    assert whole[-1] == tokenizer.eos_token_id
    assert tokens_of(tokenizer, PUBLIC[0], 3, ends=True)["input_ids"] == whole[:3]
    tokenizer.chat_template = "{% for one in messages %}{{ one['content'] }} {% endfor %}"
    chat = [{"role": "user", "content": "a film"}, {"role": "assistant", "content": "about dogs"}]
    assert tokens_of(tokenizer, chat, 20, ends=False)["input_ids"] == whole[:4]


def test_two_runs_begin_with_the_same_adapters() -> None:
    from discreet.certificate.described import About
    from discreet.jobs.language.begun_options import LanguageCommandLine
    from discreet.jobs.language.language_facts import Budget, LanguageFacts, Settings
    from discreet.jobs.language.language_run import LanguageJob
    from discreet.jobs.tables.table_facts import TableFacts

    facts = LanguageFacts(model=model_folder(Path("tiny")), lora=2)
    table = TableFacts(unit="row", text="review")
    said = LanguageCommandLine(Path("reviews.csv"), facts, table, Budget(1.0, 1e-3, 60), Settings(), None, About())
    job: Any = LanguageJob.of(said)
    one, other = (job._loaded([])[1].state_dict() for _ in range(2))
    assert all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.parametrize("name", ["reviews.jsonl", "linked.jsonl", "copied.jsonl"])
def test_private_texts_are_not_measured_as_public_ones(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exact figures of private rows would be paid for by nobody. The classes would come from them, too."""
    write_reviews("reviews.jsonl")
    model_folder(Path("tiny"))
    if name == "linked.jsonl":
        Path(name).symlink_to("reviews.jsonl")
    elif name == "copied.jsonl":
        Path(name).write_bytes(Path("reviews.jsonl").read_bytes())
    command = ["train", "reviews.jsonl", "--text", "review", "--unit", "row", "--model", "tiny", "--test", name]
    assert run([*command, "--task", "classification", "--target", "kind", *BUDGET, *FEW]) == 2
    assert "give a table that may be public" in capsys.readouterr().err
    assert not Path("reviews-private.run").exists()


def test_a_run_without_room_in_the_budget_is_refused_before_a_text_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    model_folder(Path("tiny"))
    budget = ["ledger", "budget", "--ledger", "l.sqlite", "--dataset-id", "people", "--epsilon", "1", "--delta", "1e-2"]
    assert run(budget) == 0
    command = ["train", "none.jsonl", "--text", "review", "--unit", "row", "--model", "tiny", *BUDGET, *FEW]
    assert run([*command, "--ledger", "l.sqlite", "--dataset-id", "people"]) == 3
    assert "people" in capsys.readouterr().err


def test_nothing_says_how_long_a_private_text_is(capfd: pytest.CaptureFixture[str]) -> None:
    """Tokenizers warn of texts beyond their model's length, with the number of tokens; a blank text is one of none."""
    model_folder(Path("tiny"))
    texts = [" ".join(["film"] * 4321), "   ", "a film"] * 20
    Path("reviews.jsonl").write_text("".join(json.dumps({"review": text}) + "\n" for text in texts))
    assert run(["train", "reviews.jsonl", "--text", "review", "--unit", "row", "--model", "tiny", *BUDGET, *FEW]) == 0
    said = capfd.readouterr()
    assert "432" not in re.sub(r"[\d.]+ ?it/s", "", said.out + said.err)  # the speed of loading may be any number


def test_what_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    write_reviews("reviews.csv")
    Path("holes.jsonl").write_text('{"review": "a film"}\n{"review": ""}\n')
    Path("broken.jsonl").write_text('{"review": "a film"}\n{"review"\n')
    Path("public.jsonl").write_text('{"review": "a film", "kind": "p"}\n{"review": "dull", "kind": "x"}\n')
    model_folder(Path("tiny"))
    text, unit, model = ["--text", "review"], ["--unit", "row"], ["--model", "tiny"]
    classes = ["reviews.csv", *text, *unit, *model, "--task", "classification", "--target", "kind"]
    cases: list[tuple[str, list[str]]] = [
        ("discreet train FILE --text COLUMN --model FOLDER", ["reviews.csv", *model]),
        ("say whose a row is", ["reviews.csv", *text, *model, *BUDGET]),
        ("declare --epsilon and --population", ["reviews.csv", *text, *unit, *model]),
        (
            "delta 0.05 is above 1 / population = 0.013: one row could be given away whole; say delta 0.01",
            ["reviews.csv", *text, *unit, *model, "--epsilon", "3", "--population", "80", "--delta", "0.05"],
        ),
        ("classification needs --target", ["reviews.csv", *text, *unit, *model, *BUDGET, "--task", "classification"]),
        ("for masked-lm use discreet.language", ["reviews.csv", *text, *unit, *model, "--task", "masked-lm"]),
        (
            "this command trains causal-lm and classification, and no 'summary'",
            ["reviews.csv", *text, *unit, *model, "--task", "summary"],
        ),
        ("--lora is for a language model; name its folder: --model", ["reviews.csv", *text, *unit, "--lora", "2"]),
        ("--set rows_per_unit=5", ["reviews.csv", *text, "--unit", "author", *model, *BUDGET]),
        ("of a language model there are steps", ["reviews.csv", *text, *unit, *model, *BUDGET, "--set", "epochs=3"]),
        ("--holdout is not for a language model", ["reviews.csv", *text, *unit, *model, *BUDGET, "--holdout", "10%"]),
        ("has no config.json", ["reviews.csv", *text, *unit, "--model", "nowhere", *BUDGET, *FEW]),
        ("has no column 'words'", ["reviews.csv", "--text", "words", *unit, *model, *BUDGET, *FEW]),
        ("row 2 of holes.jsonl has no 'review'", ["holes.jsonl", *text, *unit, *model, *BUDGET, *FEW]),
        ("line 2 of broken.jsonl is not JSON", ["broken.jsonl", *text, *unit, *model, *BUDGET, *FEW]),
        (
            '.pq, as a row is what is protected; of a file of plain text make one with a line {"text": "..."}',
            ["reviews.txt", *text, *unit, *model, *BUDGET, *FEW],
        ),
        (
            "row 1 of reviews.csv has the class 'n', which is none of p, z; add it to --classes, or leave the row out",
            [*classes, *BUDGET, *FEW, "--classes", "p,z"],
        ),
        (
            "row 2 of public.jsonl has the class 'x', which is none of p, n",
            [*classes, *BUDGET, *FEW, "--classes", "p,n", "--test", "public.jsonl"],
        ),
        ("--classes p,,n has a class without a name", [*classes, *BUDGET, *FEW, "--classes", "p,,n"]),
        ("--classes p,n,p names 'p' twice; leave one out", [*classes, *BUDGET, *FEW, "--classes", "p,n,p"]),
        ("declare the classes", [*classes, *BUDGET]),
    ]
    for message, command in cases:
        assert run(["train", *command]) == 2, message
        assert message in capsys.readouterr().err
    assert not list(Path().glob("*-private*"))
