"""Examples of every command, a line each, shown by --help and parsed by a test; its words are separated by spaces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_STYLE = re.compile(r"(?<!\\)(\[[a-z#/@][^\[]*?\])")
"""Text that Rich reads as a style."""

EXAMPLES: Mapping[str, str] = {
    "train": "discreet train digits --epsilon 1 --delta 1e-4 --out digits-private\n"
    "discreet train mnist --data my-mnist --processes 2 --shard fully --lanes 4\n"
    "discreet train patients.csv --schema patients.yaml --epsilon 3 --delta 1e-6 --test volunteers.csv\n"
    "discreet train reviews.jsonl --text review --model my-model --lora 8 --unit row --population 20000 --epsilon 3 "
    "--delta 1e-5\n"
    "discreet train reviews.jsonl --text review --model my-model --canaries 20 --unit row --population 20000 "
    "--epsilon 3 --delta 1e-5",
    "generate": "discreet generate reviews-private --model my-model --prompt The --rows 100 --out synthetic.csv",
    "merge": "discreet merge reviews-private --model my-model --out reviews-merged",
    "tune": "discreet tune digits --grid optimizer.lr=0.5,1,2 --trials 8 --holdout 10% --epsilon 2 --out best\n"
    "discreet tune patients.csv --schema patients.yaml --epsilon 3 --grid optimizer.lr=0.2,1 --trials 4 --holdout 10%",
    "predict": "discreet predict digits-private new.csv --out predictions.csv\n"
    "discreet predict reviews-private new.jsonl --model my-model",
    "verify": "discreet verify digits-private --key my.key.pub",
    "sign": "discreet sign digits-private --key my.key --new-key",
    "export": "discreet export digits-private model.onnx",
    "report": "discreet report digits-private --questions answers.yaml\n"
    "discreet report digits-private --fill answers.yaml --out statement.html\n"
    "discreet report digits-private --fill answers.yaml --out record.yaml",
    "init": "discreet init table --out my-table\ndiscreet init images",
    "schema": "discreet schema patients.csv --out patients.yaml",
    "suggest": "discreet suggest --population 60000 --epsilon 1 --parameters 26000\n"
    "discreet suggest --population 20000 --epsilon 3 --task causal-lm",
    "plan": "discreet plan digits --set epsilon=2\n"
    "discreet plan patients.csv --schema patients.yaml --epsilon 3 --delta 1e-6",
    "epsilon": "discreet epsilon --sampling poisson --rate 0.01 --noise 6 --steps 40000 --delta 1e-5",
    "calibrate": "discreet calibrate --sampling poisson --rate 0.01 --steps 2000 --epsilon 1 --delta 1e-4",
    "compare": "discreet compare --sampling poisson --rate 0.01 --noise 6 --steps 40000 --delta 1e-5",
    "reproduce": "discreet reproduce yu-figure-2",
    "debug": "discreet debug digits --all-public",
    "audit build": "discreet audit build digits --set epsilon=2\n"
    "discreet audit build patients.csv --schema patients.yaml --epsilon 3 --delta 1e-6\n"
    "discreet audit build module.py --effort 0.5",
    "audit run": "discreet audit run digits --made-up --canaries 1000",
    "audit model": "discreet audit model digits-private --members rows.npz --others other-rows.npz --shadows 8",
    "ledger show": "discreet ledger show --ledger team.sqlite",
    "ledger verify": "discreet ledger verify --ledger team.sqlite digits-private",
    "ledger individual": "discreet ledger individual digits-private.run",
    "ledger budget": "discreet ledger budget --ledger team.sqlite --dataset-id patients --epsilon 3 --delta 1e-3",
}


def with_examples(command: Any, words: tuple[str, ...] = ()) -> Any:
    """The command (a click command or group) whose help, and that of all below it, ends with its examples.

    Brackets in an option's help hold its default; Rich would take them for a style.
    """
    for parameter in command.params:
        if getattr(parameter, "help", None):
            parameter.help = _STYLE.sub(r"\\\1", parameter.help)
    for name, below in getattr(command, "commands", {}).items():
        with_examples(below, (*words, name))
    if " ".join(words) in EXAMPLES:
        command.epilog = "\n\n".join(f"Example: {line}" for line in EXAMPLES[" ".join(words)].splitlines())
    return command
