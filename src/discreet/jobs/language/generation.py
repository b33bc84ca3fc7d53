"""`discreet generate`: texts that a published language model writes. They are post-processing: they cost nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from discreet.core import checks
from discreet.core.errors import InputError, first_line
from discreet.jobs.language.base_folder import most_tokens
from discreet.jobs.language.published_texts import PublishedTexts

_AT_ONCE = 16
_LENGTH = 64


@dataclass(frozen=True, slots=True, eq=False)
class Writer:
    """A published model with its tokenizer, and the claim of its certificate."""

    tokenizer: Any
    model: Any
    epsilon: float
    delta: float

    @classmethod
    def of(cls, folder: Path, base: Path) -> Writer:
        """The model in a published folder, on the base model in the folder `base`.

        `VerificationFailed` unless the certificate supports its claim; `InputError` if the base is another model.
        """
        published = PublishedTexts.of(folder, base, "discreet generate")
        if published.texts.task != "causal-lm":
            raise InputError(f"{folder} holds a model for {published.texts.task}, which writes no texts")
        claim = published.certificate["claim"]
        return cls(published.tokenizer, published.inner, claim["epsilon"], claim["delta"])

    def write(
        self, prompt: str, rows: int, *, length: int | None, temperature: float, seed: int, chat: bool = False
    ) -> list[str]:
        """So many texts that begin with the prompt, of `length` new tokens at most; by default 64, or as many as the
        model has room for behind the prompt. The prompt is public.

        `chat`: answers alone, to the prompt as what a user says in the tokenizer's chat template.
        """
        checks.count("rows", rows)
        if length is not None:
            checks.count("length", length)
        checks.positive("temperature", temperature)
        tokens = self._said_by_a_user(prompt) if chat else self.tokenizer(prompt, return_tensors="pt")
        begin = tokens["input_ids"].shape[1]
        if begin == 0:
            raise InputError("the prompt has no tokens; give a word to begin with")
        length = self._fitting(begin, length)
        padding = self.tokenizer.pad_token_id
        found: list[str] = []
        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(seed)
            while len(found) < rows:
                made = self.model.generate(
                    input_ids=tokens["input_ids"],
                    attention_mask=tokens["attention_mask"],
                    do_sample=True,
                    temperature=temperature,
                    max_new_tokens=length,
                    num_return_sequences=min(_AT_ONCE, rows - len(found)),
                    pad_token_id=self.tokenizer.eos_token_id if padding is None else padding,
                )
                found += self.tokenizer.batch_decode(made[:, begin:] if chat else made, skip_special_tokens=True)
        return found

    def _said_by_a_user(self, prompt: str) -> Any:
        """The tokens of a chat of one message, up to where the answer begins."""
        if getattr(self.tokenizer, "chat_template", None) is None:
            raise InputError(
                "the tokenizer of the base model has no chat template, so this model was not trained on chats from a "
                "file; leave out --chat, and write the prompt as the texts of the training begin"
            )
        try:
            return self.tokenizer.apply_chat_template(
                [{"role": "user", "content": prompt}],
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
                return_tensors="pt",
            )
        except Exception as error:  # templates are programs, and raise what they like
            why = first_line(error)
            raise InputError(
                f"the chat template does not take a message of the user alone: {why}; leave out --chat, and write the "
                "prompt in the template"
            ) from None

    def _fitting(self, prompt: int, length: int | None) -> int:
        most = most_tokens(self.tokenizer, self.model)
        if most is None:
            return length or _LENGTH
        if (room := most - prompt) < 1:
            raise InputError(f"the prompt has {prompt} tokens, and the model reads {most} at once; give a shorter one")
        if length is not None and length > room:
            raise InputError(
                f"the model reads {most} tokens at once, and the prompt has {prompt} of them: {length} more do not "
                f"fit; give --length {room} or less"
            )
        return length or min(_LENGTH, room)
