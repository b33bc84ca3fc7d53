"""A folder with a model of `transformers` and its tokenizer, as `save_pretrained` writes it. Nothing is downloaded."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from discreet.certificate.canonical import strict_json
from discreet.certificate.earlier_runs import EarlierRun, remember
from discreet.certificate.files import CERTIFICATE, PROOF
from discreet.clipping.digests import tensor_digest
from discreet.core.disk import real
from discreet.core.errors import InputError, first_line
from discreet.core.imports.extras import extra
from discreet.language import Task, TransformersModel

_NO_LIMIT = 10**9
"""Tokenizers say a number as large as this, or larger, where they have no limit."""

_TOKENIZERS = ("*token*", "vocab*", "*.model", "tekken.json")
"""Names of files of tokenizers."""

_NO_TOKENIZER = "{} has no tokenizer; save that of the model there too: tokenizer.save_pretrained(FOLDER)"

_log = logging.getLogger("discreet")


def checked_folder(folder: Path) -> Path:
    """The folder's absolute path; `InputError` if it holds no model."""
    found = real(folder)
    if not (found / "config.json").is_file():
        raise InputError(f"{found} has no config.json; name a folder that save_pretrained wrote, with its tokenizer")
    return found


def load_base(folder: Path, auto: str, what: str, **heads: Any) -> tuple[Any, Any]:
    """Tokenizer and model. `auto`: the class of `transformers` that makes it, with `heads`. `what` needs them, in
    errors. `InputError` if they cannot be loaded."""
    found, transformers = checked_folder(folder), extra("transformers", "hf", what)
    if not any(path.is_file() for name in _TOKENIZERS for path in found.glob(name)):
        raise InputError(_NO_TOKENIZER.format(found))
    with without_bars(transformers):
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(found, local_files_only=True)
            kind = getattr(transformers, auto)
            model, told = kind.from_pretrained(found, local_files_only=True, output_loading_info=True, **heads)
        except ImportError as error:  # weights that were quantised by a package that is not here
            why = first_line(error)
            raise InputError(f"{found} needs a package that is not installed: {why}") from None
        except (OSError, ValueError, RuntimeError, KeyError, TypeError, AttributeError) as error:
            # a folder may be of any make: transformers raises what its parts raise
            why = first_line(error)
            raise InputError(f"{found} cannot be loaded: {why}") from None
    if len(tokenizer) < len(set(tokenizer.all_special_ids)) + 3:  # transformers makes one without words
        raise InputError(_NO_TOKENIZER.format(found))
    body = f"{model.base_model_prefix}." if heads else ""
    lacking = sorted(name for name in told["missing_keys"] if name.startswith(body))
    if lacking:
        shown = ", ".join(lacking[:3]) + (", ..." if len(lacking) > 3 else "")
        _log.warning("%s lacks weights of the model, which are drawn at random: %s", folder, shown)
    return tokenizer, model


def note_private_runs(folder: Path, model: TransformersModel) -> None:
    """Note that the weights from `folder` come from a private run, if the folder or its `PROOF` has a certificate.

    Which of them adapters were added to is not known, so all are noted that are not alike everywhere, as zeros are.
    `InputError` if the certificate cannot be read.
    """
    for path in (folder / CERTIFICATE, folder / PROOF / CERTIFICATE):
        if not path.is_file():
            continue
        try:  # in a cache of the Hub, files are links
            facts = strict_json(path.read_bytes(), str(path))
            runs = EarlierRun.of_certificate(facts), *EarlierRun.named(facts.get("warm_start"))
        except (OSError, LookupError, TypeError, ValueError, AttributeError):
            raise InputError(f"{path} does not say which run released the model; ask for the folder again") from None
        varied = (one for one in model.parameters() if bool((one != one.flatten()[:1]).any()))
        remember(map(tensor_digest, varied), runs)


def load_for(folder: Path, task: Task, classes: Sequence[str], what: str) -> tuple[Any, Any]:
    """Tokenizer and model for a task. Weights that the folder lacks, those of a new head, are drawn from a public seed:
    they are the same wherever the folder is loaded."""
    heads = {"num_labels": len(classes)} if classes else {}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        tokenizer, model = load_base(folder, task.auto, what, **heads)
    if classes and model.config.pad_token_id is None:
        model.config.pad_token_id = tokenizer.pad_token_id or 0
    return tokenizer, model


def check_looks_back(folder: Path, model: Any) -> None:
    """`InputError` if what the model says of a token depends on later ones: it would see what it has to predict."""

    def of_the_first(last: int) -> torch.Tensor:
        tokens = torch.tensor([[1, 2, 1, last]])
        scores: torch.Tensor = model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).logits[0, 0].float()
        return scores

    with torch.no_grad():
        one, other = of_the_first(1), of_the_first(2)
    if float((one - other).abs().max()) > 1e-3 * float(one.abs().max()):
        raise InputError(
            f"a {type(model).__name__} as {folder} has it looks at the tokens that it has to predict; take a causal "
            "model, or train a classifier: --task classification"
        )


def most_tokens(tokenizer: Any, model: Any) -> int | None:
    """The most tokens that the model reads at once, by its configuration or tokenizer; None without a limit."""
    said = [getattr(model.config, "max_position_embeddings", None), getattr(tokenizer, "model_max_length", None)]
    limits = [one for one in said if isinstance(one, int) and 0 < one < _NO_LIMIT]
    return min(limits, default=None)


@contextmanager
def without_bars(transformers: Any) -> Iterator[None]:
    """A context without the progress bars of `transformers`, which also go where nobody looks at a terminal."""
    bars = transformers.utils.logging
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            bars.enable_progress_bar()
