"""Suggestions for language models: within the budget, as the papers have it, and as `discreet train` takes them."""

import json

import pytest

from discreet.cli.app import run
from discreet.core.errors import InputError
from discreet.jobs.language.language_facts import Settings
from discreet.plan.suggest.suggest_language import suggest_language


@pytest.mark.parametrize(
    ("task", "whole", "rank", "rate", "norm"),
    [
        ("causal-lm", False, 4, 4e-4, 1.0),
        ("causal-lm", True, None, 2e-3, 0.1),
        ("classification", False, 16, 1e-3, 1.0),
        ("classification", True, None, 5e-4, 0.1),
    ],
)
def test_settings_are_those_of_the_papers(task: str, whole: bool, rank: int | None, rate: float, norm: float) -> None:
    found = suggest_language(42_000, 3, 8e-6, task=task, whole=whole)
    assert (found.rank, found.learning_rate) == (rank, rate)
    assert found.plan.clipping.first_norm == norm
    assert 2.99 < found.plan.guarantee().epsilon <= 3
    assert found.epochs <= 10
    assert found.plan.expected_batch >= 500  # E2E: they take 1,024 rows
    settings = Settings.of([word for word in found.options.split() if "=" in word])
    assert (settings.batch, settings.steps) == (found.plan.expected_batch, found.plan.steps)
    assert (settings.clip_norm, settings.learning_rate) == (norm, rate)
    assert ("--lora" in found.options) is (rank is not None)
    for paper in ("Li et al. 2022", "Yu et al. 2022"):
        assert any(paper in reason for reason in found.reasons)
    assert sum("clip norm" in reason for reason in found.reasons) == 1


def test_few_texts_are_said_to_be_few() -> None:
    assert any("is far from that" in one for one in suggest_language(2000, 3, task="causal-lm").reasons)
    assert not any("is far from that" in one for one in suggest_language(10**6, 3, task="causal-lm").reasons)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["suggest", "--population", "42000", "--epsilon", "3", "--delta", "8e-6"]
    assert run([*command, "--task", "classification"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1].startswith("discreet train TEXTS --model FOLDER ... --lora 16 --set batch=")
    assert run([*command, "--task", "causal-lm", "--whole", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["rank"], facts["learning_rate"], facts["clip_norm"]) == (None, 2e-3, 0.1)
    for wrong, why in (
        (["--whole"], "--whole is for a language model"),
        (["--task", "masked-lm"], "there are rules for causal-lm and classification"),
        (["--task", "causal-lm", "--parameters", "9"], "--parameters is not for --task"),
    ):
        assert run([*command, *wrong]) == 2
        assert why in capsys.readouterr().err


def test_other_tasks_have_no_rules() -> None:
    with pytest.raises(InputError, match="leave --task out"):
        suggest_language(1000, 3, task="seq2seq")
