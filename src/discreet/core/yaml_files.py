"""Reads YAML as people write it: plain values only, no key twice, and nothing that grows when it is read."""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from discreet.core import checks
from discreet.core.disk import refuse_special
from discreet.core.errors import InputError, plain

LARGEST, DEEPEST, MOST = 1 << 20, 60, 200_000
"""Bytes of a file, levels of nesting, and values after aliases are written out; more are refused."""

COUNTS = ("population", "steps")
"""Keys whose values are counts, written with no mark between digits: 2.000 would be read as 2."""

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Reads plain values, by libyaml where PyYAML was built with it, which takes a sixth of the time."""


def read_yaml(path: Path) -> Any:
    """The content of a YAML file; unreadable, malformed or too large files are an `InputError`."""
    refuse_special(path)
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
        text = content.decode("utf-8")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; check the path") from None
    except ValueError:
        raise InputError(f"{path} is not valid YAML: it is no text in UTF-8; save it in that encoding") from None
    if len(content) > LARGEST:
        raise InputError(f"{path} has more than {LARGEST:,} bytes, which is no recipe or schema; name another file")
    return parse_yaml(text, str(path))


def parse_yaml(text: str, where: str) -> Any:
    """The value of a YAML text; `InputError`, which names `where`, unless it is one of plain values.

    The text is looked through before anything is built, without recursion, so a short text cannot take all memory.
    """
    try:
        _check_size(text)
        return yaml.load(text, _UniqueKeys)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError) as error:
        reason = plain(" ".join(str(error).split()))
        raise InputError(f"{where} is not valid YAML: {reason:.200}") from None


def _check_size(text: str) -> None:
    """Raise `ValueError` for a text that nests too deeply, or has too many values once its aliases are written out."""
    depth, sizes, open_anchors = 0, dict[str, int](), list[tuple[str | None, int]]()
    total = 0
    for event in yaml.parse(text, LOADER):
        anchor = getattr(event, "anchor", None)
        if isinstance(event, yaml.AliasEvent):
            total += sizes.get(anchor or "", 1)
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            open_anchors.append((anchor, total))
            total += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
            name, before = open_anchors.pop()
            if name is not None:
                sizes[name] = total - before
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
        if depth > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} levels deep")
        if total > MOST:
            raise ValueError(f"it has more than {MOST:,} values")


class _UniqueKeys(LOADER):  # type: ignore[misc]
    """YAML that refuses a key that is given twice; else the first value would be lost silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set[object]()
        for key, value in node.value:
            name = self.construct_object(key, deep=True)
            if isinstance(name, Hashable):
                if name in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {name!r:.80} is there twice", node.start_mark
                    )
                seen.add(name)
            if name in COUNTS and isinstance(value, yaml.ScalarNode) and (said := checks.two_ways(value.value)):
                raise InputError(f"{name}: {said}")
        found: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return found


_UniqueKeys.add_implicit_resolver(  # 1e-5 is a number, as in YAML 1.2
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)
