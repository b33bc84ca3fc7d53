"""A file of texts: JSON lines, CSV or Parquet; and texts as tokens, each by itself."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from discreet.core.disk import refuse_special
from discreet.core.errors import InputError, first_line, plain
from discreet.data.tables.files.csv_format import CsvFormat
from discreet.data.tables.files.json_lines import SUFFIXES, json_rows
from discreet.data.tables.files.text_rows import ends_within

_KINDS = {**dict.fromkeys(SUFFIXES, "json"), ".csv": "csv", ".parquet": "parquet", ".pq": "parquet"}

_LONGEST = 2**24
"""The most characters of a cell of a CSV file."""

_HALF = re.compile("[\ud800-\udfff]")


def read_rows(path: Path, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The named columns of each row; others are not looked at. `InputError` names the row that lacks one.

    Of a column's value, texts, numbers and the messages of a chat are taken.
    """
    kind = _KINDS.get(path.suffix.lower())
    if kind is None:
        raise InputError(
            f"{path} must be one of {', '.join(_KINDS)}, as a row is what is protected; of a file of plain text make "
            'one with a line {"text": "..."} for each of its texts'
        )
    refuse_special(path)
    readers = {"json": _of_json, "csv": _of_csv, "parquet": _of_parquet}
    rows = []
    try:
        for number, row in enumerate(readers[kind](path, columns), start=1):
            for name in columns:
                _check(row, f"row {number} of {path.name}", name)
            rows.append({name: row[name] for name in columns})
    except UnicodeDecodeError:
        raise InputError(f"{path} is not in UTF-8; save it so") from None
    if not rows:
        raise InputError(f"{path} has no rows")
    return rows


def _check(row: Mapping[Any, Any], where: str, name: str) -> None:
    if name not in row:
        there = ", ".join(plain(str(one))[:80] for one in list(row)[:20]) or "no field"
        raise InputError(f"{where} has no {name!r}; it has {there}: name one of these, or fill in or remove the row")
    value = row[name]
    if value is None or value == "":
        raise InputError(f"{where} has no {name!r}; remove the row, or fill it in")
    if isinstance(value, list | dict) and not _is_chat(value):
        raise InputError(f"{where}: {name!r} must be a text, or the messages of a chat: a list of role and content")
    texts = [str(one["content"]) for one in value] if isinstance(value, list) else [str(value)]
    if any(_HALF.search(text) for text in texts):
        raise InputError(f"{where}: {name!r} has half of a surrogate pair, which is no character; remove it")


def _is_chat(value: Any) -> bool:
    """Whether it is a list of messages as chat templates take them: at least one, each with two texts, role and
    content."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(one, dict) and isinstance(one.get("role"), str) and isinstance(one.get("content"), str)
            for one in value
        )
    )


def _of_json(path: Path, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    return json_rows(path)


def _of_csv(path: Path, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    # A quote that one row leaves open would take in the rows that follow; blanks after a closing one do no harm.
    strict = ends_within(path.read_bytes().removeprefix(codecs.BOM_UTF8), CsvFormat(newlines=True))
    with path.open(encoding="utf-8-sig", newline="") as file, _long_cells():
        rows = csv.DictReader(file, strict=strict)
        try:
            missing = [name for name in columns if name not in (rows.fieldnames or ())]
            if missing:
                raise InputError(f"{path.name} has no column {missing[0]!r}; it has {', '.join(rows.fieldnames or ())}")
            yield from rows
        except csv.Error as error:
            begins = f"the row from line {rows.line_num + 1} of {path.name}"
            raise InputError(f"{begins} is not CSV: {error}; if a quote is not closed, close it") from None


@contextmanager
def _long_cells() -> Iterator[None]:
    """A context in which a cell may be as long as a text is: Python's own limit is a guard for numbers."""
    before = csv.field_size_limit(_LONGEST)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _of_parquet(path: Path, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pa_parquet

    try:
        names = pa_parquet.read_schema(path).names
        missing = [name for name in columns if name not in names]
        if missing:
            raise InputError(f"{path.name} has no column {missing[0]!r}; it has {', '.join(names)}")
        yield from pa_parquet.read_table(path, columns=list(columns)).to_pylist()
    except pa.ArrowException as error:
        why = first_line(error)
        raise InputError(f"{path.name} cannot be read as Parquet: {why}") from None


def tokens_of_rows(
    rows: Sequence[Mapping[str, Any]],
    path: Path | None,
    text: str,
    tokenizer: Any,
    length: int,
    *,
    target: str | None = None,
    classes: Sequence[str] = (),
    ends: bool = False,
) -> list[dict[str, Any]]:
    """The tokens of each row's `text`, made of it alone; with a `target` also the number of its class, as `labels`.

    `path`: the file that the rows are of, from the first on; None of made-up texts. `InputError` names the row whose
    class is not declared, or whose chat has no tokens.
    """
    made: list[dict[str, Any]] = []
    for number, row in enumerate(rows, start=1):
        where = f"row {number} of {path.name}" if path else "a made-up text"
        tokens: dict[str, Any] = tokens_of(tokenizer, row[text], length, ends=ends, where=where)
        if target is not None:
            if (label := str(row[target])) not in classes:
                raise InputError(
                    f"{where} has the class {label!r}, which is none of {', '.join(classes)}; add it to --classes, or "
                    "leave the row out"
                )
            tokens["labels"] = classes.index(label)
        made.append(tokens)
    return made


def tokens_of(tokenizer: Any, value: Any, length: int, *, ends: bool, where: str = "the text") -> dict[str, list[int]]:
    """The first `length` tokens of a text, or of the messages of a chat by the tokenizer's template. `ends`: with the
    token that ends a text, if there is room. `where` it stands, in errors: `InputError` if a chat has no tokens."""
    if isinstance(value, list):
        found = _of_chat(tokenizer, value, length, where)
    else:
        # cut by the tokenizer, which would otherwise say on the terminal how long a text is
        found = tokenizer(str(value), truncation=True, max_length=length)["input_ids"]
    if ends and tokenizer.eos_token_id is not None and found[-1:] != [tokenizer.eos_token_id]:
        found = [*found, tokenizer.eos_token_id]
    tokens = [int(one) for one in found[:length]]
    return {"input_ids": tokens, "attention_mask": [1] * len(tokens)}


def _of_chat(tokenizer: Any, messages: list[Any], length: int, where: str) -> list[Any]:
    if getattr(tokenizer, "chat_template", None) is None:
        raise InputError(
            f"{where} is a chat, and the tokenizer of --model has no chat template; save the tokenizer with one, or "
            "make a text of each chat"
        )
    given = {"truncation": True, "max_length": length}
    try:
        found = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True, **given)
    except Exception as error:  # templates are programs, and raise what they like
        why = first_line(error)
        raise InputError(f"the tokenizer's chat template does not take {where}: {why}; change or remove it") from None
    return list(found["input_ids"])
