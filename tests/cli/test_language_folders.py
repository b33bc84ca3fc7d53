"""What is done with a published language model: classes of new texts, one merged model, and a card for the Hub."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from tiny_model_folder import PUBLIC, model_folder, transformers
from warm_runs import in_another_process

from discreet.cli.app import run

pytestmark = pytest.mark.filterwarnings("ignore")

BUDGET = ["--epsilon", "8", "--delta", "1e-3", "--population", "60", "--unit", "row"]
FEW = ["--set", "steps=2", "--set", "batch=20", "--set", "engine=bookkeeping", "--set", "learning_rate=0.1"]
TEXTS = ["reviews.jsonl", "--text", "review", "--length", "8", "--model", "tiny"]
CLASSES = ["--task", "classification", "--target", "kind", "--classes", "bad,good"]


def written(name: str, count: int = 60) -> list[dict[str, str]]:
    rows = [{"review": PUBLIC[i % 2], "kind": ("good", "bad")[i % 2], "id": f"r{i}"} for i in range(count)]
    Path(name).write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return rows


def published(capsys: pytest.CaptureFixture[str], *options: str) -> Path:
    written("reviews.jsonl")
    model_folder(Path("tiny"))
    assert run(["train", *TEXTS, *options, *BUDGET, *FEW]) == 0, capsys.readouterr().err
    capsys.readouterr()
    return Path("reviews-private")


def front(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((folder / "README.md").read_text().split("---")[1])
    return found


def scores(model: Any) -> torch.Tensor:
    """Of two texts, whose tokens are numbers of words."""
    tokenizer = transformers.AutoTokenizer.from_pretrained("tiny")
    given = tokenizer(PUBLIC[:2], return_tensors="pt", padding=True)
    with torch.no_grad():
        found: torch.Tensor = model.eval()(given["input_ids"], attention_mask=given["attention_mask"]).logits
    return found


@pytest.mark.parametrize("adapters", [["--lora", "2"], []])
def test_classes_of_new_texts(capsys: pytest.CaptureFixture[str], adapters: list[str]) -> None:
    folder = published(capsys, *CLASSES, *adapters)
    written("new.jsonl", 4)
    asked = ["predict", str(folder), "new.jsonl"]
    assert run([*asked, "--model", "tiny", "--keep", "id", "--out", "found.csv"]) == 0, capsys.readouterr().err
    with Path("found.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["id", "kind", "probability", "p(bad)", "p(good)"]
    assert [row["id"] for row in rows] == ["r0", "r1", "r2", "r3"]
    model = transformers.AutoModelForSequenceClassification.from_pretrained("tiny", num_labels=2)
    assert not torch.allclose(scores(model).softmax(1)[0, 0], torch.tensor(float(rows[0]["p(bad)"])), atol=1e-3)
    assert all(row["kind"] == ("bad" if float(row["p(bad)"]) > 0.5 else "good") for row in rows)
    assert front(folder)["pipeline_tag"] == "text-classification"
    assert "predict reviews-private new.csv --model BASE" in (folder / "README.md").read_text().replace(
        "FOLDER", "reviews-private"
    )
    for wrong, said in (
        (asked, "name the folder of its base model"),
        ([*asked, "--model", "tiny", "--keep", "kind"], "have a column"),
    ):
        capsys.readouterr()
        assert run(wrong) == 2
        assert said in capsys.readouterr().err
    assert run(["generate", str(folder), "--model", "tiny", "--prompt", "a"]) == 2
    assert "which writes no texts" in capsys.readouterr().err


def test_a_merged_model_predicts_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    peft: Any = pytest.importorskip("peft", reason="peft is not installed; it is in the extra hf")
    from discreet.jobs.language.base_folder import load_for
    from discreet.language import TASKS

    folder = published(capsys, *CLASSES, "--lora", "2")
    assert run(["merge", str(folder), "--model", "tiny", "--out", "merged"]) == 0, capsys.readouterr().err
    merged = transformers.AutoModelForSequenceClassification.from_pretrained("merged")
    assert merged.config.id2label == {0: "bad", 1: "good"}
    base = load_for(Path("tiny"), TASKS["classification"], ["bad", "good"], "a test")[1]
    before = scores(base)
    assert not any("lora" in name for name in merged.state_dict())
    assert torch.allclose(scores(merged), scores(peft.PeftModel.from_pretrained(base, str(folder))), atol=1e-6)
    assert not torch.allclose(scores(merged), before, atol=1e-3)
    assert run(["verify", "merged/proof", "--strict"]) == 0
    facts = json.loads(Path("merged/proof/certificate.json").read_text())
    said = Path("merged/README.md").read_text()
    assert facts["base"]["sha256"] in said
    assert front(Path("merged")) == {
        "library_name": "transformers",
        "base_model": "tiny",
        "base_model_relation": "finetune",
        "pipeline_tag": "text-classification",
        "tags": ["differential-privacy", "dp-sgd", "pytorch", "safetensors"],
    }
    assert run(["merge", "merged/proof", "--model", "tiny", "--out", "again"]) == 0
    assert Path("again/model.safetensors").read_bytes() == Path("merged/model.safetensors").read_bytes()
    capsys.readouterr()
    assert run(["merge", str(folder), "--model", "tiny", "--out", "merged"]) == 2
    assert "exists already" in capsys.readouterr().err
    model_folder(Path("other"), seed=1)
    assert run(["merge", str(folder), "--model", "other", "--out", "third"]) == 2
    said = capsys.readouterr().err
    assert "other is not the model 'tiny' that these adapters belong to: its weights have another hash than" in said
    assert f"{facts['base']['sha256'][:12]}... of the certificate; name the folder that they were trained on" in said
    Path(folder, "adapter_model.safetensors").write_bytes(b"")
    assert run(["merge", str(folder), "--model", "tiny", "--out", "third"]) == 1
    assert not Path("third").exists()


@pytest.mark.parametrize("adapters", [["--lora", "2"], []])
def test_training_that_goes_on_from_a_merged_model_names_its_run(
    capsys: pytest.CaptureFixture[str], adapters: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("peft", reason="peft is not installed; it is in the extra hf")
    in_another_process(monkeypatch)  # a command has a process of its own
    folder = published(capsys, *CLASSES, "--lora", "2")
    assert run(["merge", str(folder), "--model", "tiny", "--out", "merged"]) == 0, capsys.readouterr().err
    for file in [one for one in Path("merged").rglob("*") if one.is_file()]:  # links, as in a cache of the Hub
        file.rename(blob := Path(f"{len(list(Path().iterdir()))}.blob"))
        file.symlink_to(blob.absolute())
    rest = ["--out", "second", "--model", "merged"]
    assert run(["train", *TEXTS[:-2], *CLASSES, *adapters, *BUDGET, *FEW, *rest]) == 0, capsys.readouterr().err
    named = json.loads((folder / "certificate.json").read_text())["ledger"]["entries"][0]["run"]
    facts = json.loads(Path("second/certificate.json").read_text())
    assert [one["run"] for one in facts["warm_start"]] == [named]
    assert run(["verify", "second"]) == 0
    assert named in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["Llama", "GPT2"])
@pytest.mark.parametrize("left", [[], ["tokenizer_config.json"]])
def test_a_folder_without_a_tokenizer_is_refused(
    kind: str, left: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Of some models transformers makes a tokenizer without words in its place, to which all texts are alike."""
    written("reviews.jsonl")
    folder = model_folder(Path("tiny"))
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    getattr(transformers, f"{kind}Config")(vocab_size=40, **sizes).save_pretrained(folder)
    for file in folder.glob("token*"):
        if file.name in left:
            file.write_text("{}")
        else:
            file.unlink()
    assert run(["train", *TEXTS, *CLASSES, *BUDGET, *FEW]) == 2
    assert "tokenizer" in (said := capsys.readouterr().err)
    assert left or "tiny has no tokenizer; save that of the model there too: tokenizer.save_pretrained" in said
    assert not list(Path().glob("*-private*"))


def test_a_model_that_sees_what_it_has_to_predict_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """As that of BERT, of which transformers makes a model for the next token too; a classifier it may be."""
    written("reviews.jsonl")
    folder = model_folder(Path("tiny"))
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=40, **sizes)).save_pretrained(folder)
    assert run(["train", *TEXTS, *BUDGET, *FEW]) == 2
    assert "looks at the tokens that it has to predict; take a causal model, or" in capsys.readouterr().err
    assert run(["train", *TEXTS, *CLASSES, *BUDGET, *FEW]) == 0


def test_a_whole_model_is_not_merged(capsys: pytest.CaptureFixture[str]) -> None:
    folder = published(capsys)
    assert run(["merge", str(folder), "--model", "tiny", "--out", "merged"]) == 2
    assert "there is nothing to merge" in capsys.readouterr().err
    assert run(["predict", str(folder), "reviews.jsonl", "--model", "tiny"]) == 2
    assert "holds no classifier of texts" in capsys.readouterr().err
    assert front(folder)["pipeline_tag"] == "text-generation"


def test_the_hub_reads_the_card_of_adapters(capsys: pytest.CaptureFixture[str]) -> None:
    hub: Any = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed; it is in the extra hf")
    folder = (
        published(capsys, *CLASSES, "--lora", "2", "--test", "reviews2.jsonl") if written("reviews2.jsonl", 7) else None
    )
    assert folder is not None
    card = hub.ModelCard.load(folder / "README.md", ignore_metadata_errors=False).data
    assert (card.library_name, card.base_model, card.pipeline_tag) == ("peft", "tiny", "text-classification")
    assert card.to_dict()["base_model_relation"] == "adapter"
    assert {"differential-privacy", "transformers", "safetensors"} <= set(card.tags)
    assert card.eval_results[0].metric_type in ("accuracy", "loss")
