"""Shares of classes that are declared: what may be said, the loss that follows, and what it does for rare classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
import yaml
from torch import nn

from discreet.core.errors import InputError
from discreet.data.tables import Encoder, Schema
from discreet.data.tables.amounts import amounts
from discreet.data.tables.columns import Number
from discreet.data.tables.drafting.draft import draft, left_open
from discreet.data.tables.drafting.draft_column import Known
from discreet.data.tables.drafting.missing_codes import missing_codes
from discreet.data.tables.values import BadValue, Marks, identifiers
from discreet.jobs.evaluation.public_metrics import metrics_of
from discreet.jobs.tables.table_loss import loss_of
from discreet.plan.pydantic_base import validate

NAMES = ["leave", "move", "stay"]


def encoder(column: dict[str, Any], *more: dict[str, Any]) -> Encoder:
    columns = {"x": {"type": "number", "low": 0, "high": 1}, "y": column}
    columns |= {f"y{place}": one for place, one in enumerate(more)}
    facts = {"unit": "row", "population": 100, "target": list(columns)[1:], "columns": columns}
    return Encoder(validate(Schema, facts, "schema"))


def category(**fields: Any) -> dict[str, Any]:
    return {"type": "category", "categories": NAMES, **fields}


@pytest.mark.parametrize(
    ("shares", "found"),
    [
        ({"leave": 0.04, "move": 0.11, "stay": 0.85}, (0.04, 0.11, 0.85)),
        ({"leave": 0.04}, (0.04, 0.48, 0.48)),  # the others share what is left
        ({"leave": 0.05, "move": 0.11, "stay": 0.85}, (0.05 / 1.01, 0.11 / 1.01, 0.85 / 1.01)),  # rounded
    ],
)
def test_shares_of_classes(shares: dict[str, float], found: tuple[float, ...]) -> None:
    assert encoder(category(shares=shares)).shares == pytest.approx(found, abs=1e-12)
    assert encoder(category()).shares is None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"shares": {"gone": 0.1}}, "'gone'"),
        ({"shares": {"leave": 0.4, "move": 0.4, "stay": 0.4}}, "add up to 1.2"),
        ({"shares": {"leave": 0.4, "move": 0.6}}, "add up to 1"),
        ({"shares": {"leave": 0}}, "greater than 0"),
        ({"shares": {"leave": 0.1}, "weights": {"leave": 2}}, "weights or shares"),
    ],
)
def test_shares_that_cannot_be(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        encoder(category(**fields))


def test_the_loss_adds_the_logarithms_of_the_shares() -> None:
    """So it is least where the answer and the shares together are right (Menon et al. 2021, equation 10)."""
    loss = loss_of(encoder(category(shares={"leave": 0.1, "move": 0.2, "stay": 0.7})))
    outputs, classes = torch.randn(5, 3, dtype=torch.float64), torch.tensor([0, 1, 2, 2, 0])
    weighted = outputs.exp() * torch.tensor([0.1, 0.2, 0.7], dtype=torch.float64)
    by_hand = -(weighted[range(5), classes] / weighted.sum(dim=1)).log().mean()
    assert float(loss(outputs, classes)) == pytest.approx(float(by_hand), rel=1e-6)


def test_of_labels_each_has_its_own() -> None:
    rare, common = {"type": "boolean", "shares": {"true": 0.1}}, {"type": "boolean"}
    made = encoder(rare, common)
    assert made.shares == (pytest.approx(0.1), 0.5)
    outputs, truths = torch.randn(4, 2), torch.tensor([[1.0, 0], [0, 1], [0, 0], [1, 1]])
    shifted = outputs + torch.tensor([np.log(0.1 / 0.9), 0.0], dtype=torch.float32)
    assert float(loss_of(made)(outputs, truths)) == pytest.approx(float(nn.BCEWithLogitsLoss()(shifted, truths)))


def test_weights_and_shares_of_a_boolean_are_by_its_words() -> None:
    words = {"type": "boolean", "words": ["alive", "dead"]}
    assert encoder(words | {"weights": {"dead": 3}}).weights == (1.0, 3.0)
    assert encoder(words | {"shares": {"dead": 0.2}}).shares == (pytest.approx(0.8), pytest.approx(0.2))
    assert encoder(words | {"weights": {"dead": 3}}, {"type": "boolean"}).weights == (3.0, 1.0)
    with pytest.raises(InputError, match="weights names 'true', which is not in categories"):
        encoder(words | {"weights": {"true": 3}})


def test_rare_classes_are_found_again() -> None:
    """Two classes of one number, 2 to 98: trained by gradients of the plain loss, and of the loss with shares."""
    generator = torch.Generator().manual_seed(2)
    rare = torch.rand(4000, generator=generator) < 0.02
    x = torch.randn(4000, 1, generator=generator) + 1.5 * rare[:, None]
    recalls = []
    for fields in ({}, {"shares": {"leave": 0.02}}):
        made = encoder({"type": "category", "categories": ["stay", "leave"]} | fields)
        model, loss = nn.Linear(1, 2), loss_of(made)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        for _ in range(300):
            optimizer.zero_grad()
            loss(model(x), rare.long()).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        found = metrics_of(made, model(x).detach().double().numpy(), rare.long().numpy(), {})
        recalls.append(found["recall: leave"])
        assert ("baseline balanced accuracy" in found) is bool(fields)
    assert recalls[0] < 0.1
    assert recalls[1] > 0.6


PUBLIC = "pay,age,left\n" + "".join(f"{[1, 5, 99][i % 3]},{20 + i % 40},{'yn'[i % 20 > 0]}\n" for i in range(200))


def test_a_draft_weighs_classes_alike_by_the_shares_of_a_public_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("pay,age,left\n3,40,y\n2,50,n\n")
    (tmp_path / "public.csv").write_text(PUBLIC)
    public = (tmp_path / "public.csv",)
    plain = draft(tmp_path / "t.csv", known=Known("left", "row", 500, public))
    assert "# 0.05 of the rows of public.csv are 'y'" in plain
    assert "shares" not in yaml.safe_load(plain)["columns"]["left"]
    alike = draft(tmp_path / "t.csv", known=Known("left", "row", 500, public, balance=True))
    assert yaml.safe_load(alike)["columns"]["left"]["shares"] == {"n": 0.95, "y": 0.05}
    (tmp_path / "public.csv").write_text("pay,age,left\n" + "1,20,y\n" + "1,20,n\n" * 999)
    rare = yaml.safe_load(draft(tmp_path / "t.csv", known=Known("left", "row", 500, public, balance=True)))
    assert rare["columns"]["left"]["shares"] == {"n": 0.999, "y": 0.001}
    asked = draft(tmp_path / "t.csv", known=Known("left", "row", 500, balance=True))
    assert "left" in left_open(asked)


def test_99_is_missing_in_typed_columns_too_and_somebodys_identifier() -> None:
    marks = Marks(("", "99"))
    for values in (pa.array([1, 99]), pa.array([1.0, 99.0]), pa.array(["1", "99"])):
        found, faults = amounts(values, Number(low=0, high=9), marks)
        assert (found[0], bool(np.isnan(found[1])), faults) == (1.0, True, {})
    assert identifiers(pa.array(["7", "99"]), marks).to_pylist() == ["7", "99"]
    assert identifiers(pa.array([7, 99]), marks).to_pylist() == [7, 99]
    with pytest.raises(BadValue, match="the identifier is missing"):
        identifiers(pa.array(["7", ""]), marks)


def test_a_draft_takes_99_for_a_code_where_it_is_far_from_all_others(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("pay,age,left\n3,40,y\n2,50,n\n")
    (tmp_path / "public.csv").write_text(PUBLIC)
    facts = yaml.safe_load(draft(tmp_path / "t.csv", known=Known("left", "row", 500, (tmp_path / "public.csv",))))
    assert "99" in facts["missing"]
    assert facts["columns"]["pay"] == {"type": "number", "low": 1, "high": 5}
    (tmp_path / "public.csv").write_text(PUBLIC + "4,99,n\n3,104,y\n")  # somebody is 99 years old
    facts = yaml.safe_load(draft(tmp_path / "t.csv", known=Known("left", "row", 500, (tmp_path / "public.csv",))))
    assert "99" not in facts["missing"]
    assert missing_codes({"a": np.array([1.0, 5, 99])}) == {99.0: ["a"]}
    assert missing_codes({"a": np.array([1.0, 5, 99])}, {"B", "99"}) == {}


def test_a_public_table_with_one_class_does_not_say_how_rare_the_other_is(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("age,left\n40,yes\n50,no\n")
    (tmp_path / "public.csv").write_text("age,left\n41,no\n42,no\n")
    known = Known("left", "row", 500, (tmp_path / "public.csv",), balance=True)
    assert "left" in left_open(draft(tmp_path / "t.csv", known=known))
