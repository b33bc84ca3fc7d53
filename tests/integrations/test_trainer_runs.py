"""PrivateTrainer in bfloat16, broken off and gone on with, with DoRA; and base models that were quantised."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

import pytest
import torch
from language_families import field_rows, inner_model, on_rows, rows_for, stacked, transformers, with_lora
from tiny_model_folder import model_folder

import discreet
from discreet.clipping import Chunk, Clip
from discreet.core.errors import InputError, PrivacyViolation
from discreet.integrations.huggingface import PrivateTrainer, publish_adapters
from discreet.jobs.language.base_folder import load_base
from discreet.language import TASKS, TransformersModel
from discreet.training import RunOptions

peft: Any = pytest.importorskip("peft", reason="peft is not installed; it is in the extra hf")
pytestmark = pytest.mark.filterwarnings("ignore")

PLAN = discreet.Plan.poisson(population=40, batch=20, steps=4, clip_norm=1.0, delta=1e-3, noise_multiplier=1.0)
SHORT = PLAN.model_copy(update={"block": 1})


def trainer_for(
    folder: Path, options: dict[str, Any], told: Any = (), model: Any = None, plan: Any = SHORT, **changes: Any
) -> Any:
    given = {"output_dir": str(folder / "hf"), "report_to": [], "use_cpu": True, "learning_rate": 1e-2} | changes
    return PrivateTrainer(
        model=with_lora(inner_model("Llama"), TASKS["causal-lm"]) if model is None else model,
        args=transformers.TrainingArguments(**given),
        train_dataset=field_rows("causal-lm", 40),
        plan=plan,
        told=told,
        options={"run": folder / "run", "engine": "bookkeeping"} | options,
    )


@pytest.mark.parametrize("bf16", [True, False])
@pytest.mark.parametrize("engine", ["bookkeeping", discreet.EngineOptions("vmap", physical_batch=8)])
def test_bf16_of_the_arguments_holds_with_any_engine(
    engine: Any, bf16: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model runs in bfloat16, if that was said; its weights stay in single precision."""
    kinds: set[torch.dtype] = set()
    forward = TransformersModel.forward

    def seen(self: TransformersModel, rows: torch.Tensor) -> torch.Tensor:
        found = forward(self, rows)
        kinds.add(found.dtype)
        return found

    monkeypatch.setattr(TransformersModel, "forward", seen)
    trained = trainer_for(tmp_path, {"engine": engine}, bf16=bf16).train()
    assert (torch.bfloat16 in kinds) is bf16
    assert {one.dtype for one in trained.model.parameters()} == {torch.float32}
    publish_adapters(trained, tmp_path / "out", base="tiny")
    facts = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert facts["mechanism"]["engine"] == (engine if isinstance(engine, str) else engine.name)
    assert discreet.verify(tmp_path / "out").accepted


class Stops:
    """Ends the run after a step."""

    def __init__(self, step: int) -> None:
        self.step, self.steps = step, [0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def begin(self, opening: Any) -> None: ...

    def tell(self, told: Any) -> None:
        self.steps.append(told.step)
        if told.step == self.step:
            raise KeyboardInterrupt


def test_a_run_that_was_broken_off_is_gone_on_with(tmp_path: Path) -> None:
    """Under the schedule that it began with, from the adapters that it had, with no step charged again."""
    changes = {"lr_scheduler_type": "linear"}
    first = trainer_for(tmp_path, {}, told=[Stops(2)], **changes)
    with pytest.raises(KeyboardInterrupt):
        first.train()
    follower = Stops(9)
    again = trainer_for(tmp_path, {"run": RunOptions(tmp_path / "run", resume=True)}, told=[follower], **changes)
    trained = again.train()
    assert follower.steps == [0, 3, 4]  # the second was released, but the run ended before it was kept
    assert trained.charged_steps == 4
    positions = [entry.position for entry in trained.entries if entry.kind == "reservation"]
    assert positions == sorted(set(positions))
    assert sum(entry.steps for entry in trained.entries if entry.kind == "reservation") == 4
    assert again.lr_scheduler.get_last_lr() == [1e-2 / 4] * 2  # a step behind, for the one that was lost
    publish_adapters(trained, tmp_path / "out", base="tiny")
    assert discreet.verify(tmp_path / "out").accepted


def test_a_run_whose_steps_were_all_lost_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """They are charged as one block, and no checkpoint was written: not the optimizer is at fault."""
    with pytest.raises(KeyboardInterrupt):
        trainer_for(tmp_path, {}, told=[Stops(2)], plan=PLAN).train()
    with pytest.raises(PrivacyViolation, match=r"no step of this run was taken, .* \(then begin another run\)"):
        trainer_for(tmp_path, {"run": RunOptions(tmp_path / "run", resume=True)}, plan=PLAN).train()
    assert "has no checkpoint: no step is left either, so the model stays as it was at the start; begin" in caplog.text
    assert "4 charged steps are lost, and stay charged" in caplog.text


def dora() -> Any:
    wanted = {"r": 2, "target_modules": ["q_proj", "v_proj"], "use_dora": True}
    return peft.get_peft_model(inner_model("Llama"), peft.LoraConfig(task_type="CAUSAL_LM", **wanted))


@pytest.mark.parametrize("engine", ["vmap", "reference"])
def test_dora_trains_and_is_not_published_as_adapters(engine: str, tmp_path: Path) -> None:
    """Its clipped sums are those of rows taken one at a time; `bookkeeping`, which cannot tell whose a norm of weights
    is, refuses it. `peft` saves its magnitudes under another name, so that publishing adapters alone is refused."""
    model, loss = on_rows(dora(), "causal-lm"), TASKS["causal-lm"].loss()
    optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.1)
    made = {"engine": engine, "run": tmp_path / "run"}
    training = discreet.Training(PLAN, model, loss, optimizer, rows_for("causal-lm", 40), **made)
    inputs, targets = stacked(rows_for("causal-lm", 3))
    found = training.engine.clipped_sum(model, loss, Chunk(inputs, targets), Clip(1e-3, 2.0**-30))
    wanted: dict[str, torch.Tensor] = {}
    for row in range(3):
        private = {name: one for name, one in model.named_parameters() if one.requires_grad}
        mine = dict(
            zip(
                private,
                torch.autograd.grad(loss(model(inputs[row : row + 1]), targets[row : row + 1]), [*private.values()]),
                strict=True,
            )
        )
        norm = torch.stack([part.norm() for part in mine.values()]).norm()
        for name, part in mine.items():
            wanted[name] = wanted.get(name, torch.zeros_like(part)) + part * min(1.0, 1e-3 / float(norm))
    assert any("magnitude" in name for name in wanted)
    for name, part in wanted.items():
        assert torch.allclose(found[name].to(part.dtype), part, rtol=1e-3, atol=1e-8), name
    trained = training.run(progress=False)
    with pytest.raises(PrivacyViolation, match=r"magnitude.*DoRA"):
        publish_adapters(trained, tmp_path / "out", base="tiny")
    assert not (tmp_path / "out").exists()


def test_dora_by_bookkeeping_is_refused(tmp_path: Path) -> None:
    model = on_rows(dora(), "causal-lm")
    optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.1)
    rows = rows_for("causal-lm", 40)
    made = {"engine": "bookkeeping", "run": tmp_path / "run"}
    with pytest.raises(discreet.core.errors.UnsupportedModel, match="its axis 0 must hold the examples"):
        discreet.Training(PLAN, model, TASKS["causal-lm"].loss(), optimizer, rows, **made)


@pytest.mark.parametrize(
    ("config", "package"),
    [
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bitsandbytes"),
        ({"quant_method": "torchao", "quant_type": {"default": {"_type": "Int8WeightOnlyConfig"}}}, "torchao"),
    ],
)
def test_a_quantised_base_whose_package_is_missing_is_one_line(
    config: dict[str, Any], package: str, tmp_path: Path
) -> None:
    try:
        __import__(package)
        pytest.skip(f"{package} is installed")
    except ImportError:
        pass
    folder = model_folder(tmp_path / "tiny")
    facts = json.loads((folder / "config.json").read_text()) | {"quantization_config": config}
    (folder / "config.json").write_text(json.dumps(facts))
    with pytest.raises(InputError, match=f"needs a package that is not installed: .*{package}") as error:
        load_base(folder, "AutoModelForCausalLM", "a test")
    assert "\n" not in str(error.value)
