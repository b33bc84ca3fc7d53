"""`discreet generate --chat`: prompts in the template that the chats of the training went through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_model_folder import model_folder, transformers

from discreet.core.errors import InputError
from discreet.jobs.language.generation import Writer
from discreet.jobs.language.private_texts import tokens_of


def test_prompts_of_chats_go_through_the_template() -> None:
    """The same tokens as of the training, up to the answer; no more is written than the answer."""
    folder = model_folder(Path("tiny"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    writer = Writer(tokenizer, transformers.AutoModelForCausalLM.from_pretrained(folder).eval(), 1.0, 1e-5)
    fixed: dict[str, Any] = {"length": 5, "temperature": 1.0, "seed": 3}
    with pytest.raises(InputError, match=r"has no chat template, .* leave out --chat"):
        writer.write("film", 2, chat=True, **fixed)
    of_user, of_answer = "a {{ one['content'] }} ", "about {{ one['content'] }} "
    either = "{% if one['role'] == 'user' %}" + of_user + "{% else %}" + of_answer + "{% endif %}"
    tokenizer.chat_template = (
        "{% for one in messages %}" + either + "{% endfor %}{% if add_generation_prompt %}about{% endif %}"
    )
    said = [{"role": "user", "content": "film"}, {"role": "assistant", "content": "dogs"}]
    assert tokenizer.decode(tokens_of(tokenizer, said, 20, ends=False)["input_ids"]).startswith("a film about dogs")
    whole, answers = writer.write("a film about", 20, **fixed), writer.write("film", 20, chat=True, **fixed)
    assert [f"a film about {answer}".strip() for answer in answers] == [text.strip() for text in whole]
    assert len(set(answers)) > 1
    tokenizer.chat_template = "{{ raise_exception('no system message') }}"
    with pytest.raises(InputError, match="of the user alone: no system message; leave out --chat"):
        writer.write("film", 2, chat=True, **fixed)
