"""A run of `PrivateTrainer` in several processes; each prints what its state says of evaluations.

torchrun --nproc-per-node 2 shared_trainer.py FOLDER
"""

import json
import sys
import warnings
from pathlib import Path

import torch
from language_families import field_rows, inner_model, transformers

import discreet
from discreet.core.processes import rank
from discreet.integrations.huggingface import PrivateTrainer

warnings.simplefilter("ignore")
folder = Path(sys.argv[1])
plan = discreet.Plan.poisson(population=40, batch=20, steps=4, clip_norm=1.0, delta=1e-3, noise_multiplier=1.0)
torch.manual_seed(0)
trainer = PrivateTrainer(
    model=inner_model("Llama"),
    args=transformers.TrainingArguments(
        output_dir=str(folder / "hf"), report_to=[], use_cpu=True, eval_strategy="steps", eval_steps=2
    ),
    train_dataset=field_rows("causal-lm", 40),
    eval_dataset=field_rows("causal-lm", 8, seed=1),
    plan=plan,
    options={"run": folder / "run", "engine": "bookkeeping"},
)
trained = trainer.train()
wanted = [{"eval_loss": one.metrics["loss"], "step": one.step} for one in trained.evaluations]
assert trainer.state.log_history == wanted, (rank(), trainer.state.log_history)
sys.stdout.write(json.dumps([rank(), trainer.state.global_step, [one.step for one in trained.evaluations]]) + "\n")
