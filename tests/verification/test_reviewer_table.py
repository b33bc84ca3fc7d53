"""The table of fields in verify.py is that of the schema, and both say the same of any certificate."""

from __future__ import annotations

import copy
import importlib.util
import json
import random
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from forging import facts_of

from discreet.certificate.json_schema import fault
from discreet.publication import certificate_schema
from discreet.verification.standalone import verify as reviewer

SCRIPT = Path(__file__).parents[2] / "scripts" / "reviewer_table.py"
SCHEMA = json.loads(certificate_schema.PATH.read_text())


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reviewer_table", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_is_that_of_the_schema(script: ModuleType) -> None:
    """If this fails, run `python scripts/reviewer_table.py`."""
    assert Path(reviewer.__file__).read_text() == script.written()


def test_what_the_table_cannot_say_is_an_error(script: ModuleType) -> None:
    for part in ({"type": "string", "maxLength": 3}, {"type": "array", "items": {}, "minItems": 2}, {"enum": [1, 2]}):
        schema = {"type": "object", "properties": {"a": part}, "required": ["a"], "additionalProperties": False}
        with pytest.raises(ValueError, match=r"words|written"):
            script.Table(schema | {"$defs": {}})


def refused(facts: Any) -> bool:
    try:
        reviewer.check_kind(facts, "certificate", "certificate")
    except reviewer.Stop:
        return True
    return False


def test_schema_and_table_refuse_the_same(original: Path) -> None:
    """Any value anywhere replaced, removed or added; the values are strange, of another type, or at a limit."""
    facts, draw = facts_of(original), random.Random(0)
    values = [None, True, 0, 1, -1, 0.5, 1.0, 7, 1e-31, "", "x", "flat", "user", "0" * 64, [], {}, [1.0], 10**400, 1e30]
    agreed = {True: 0, False: 0}
    assert not refused(facts)
    for _ in range(200):
        forged = copy.deepcopy(facts)
        inner: Any = forged
        while True:
            last = draw.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
            if not isinstance(inner[last], dict | list) or not inner[last] or draw.random() < 0.2:
                break
            inner = inner[last]
        way = draw.choice(["replace", "replace", "remove", "add"])
        if way == "remove":
            del inner[last]
        elif isinstance(inner, list) or way == "replace":
            inner[last] = draw.choice(values)
        else:
            inner[draw.choice(["note", "kind", "period", "*", "released?", "filter"])] = draw.choice(values)
        assert refused(forged) == (fault(forged, SCHEMA) is not None), (last, inner)
        agreed[refused(forged)] += 1
    assert min(agreed.values()) > 10
