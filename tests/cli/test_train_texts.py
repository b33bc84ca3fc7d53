"""`discreet train TABLE --text COLUMN` from reviews to a verified folder, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
import yaml
from instead import instead

from discreet.cli.app import run

BUDGET = ["--epsilon", "8", "--delta", "1e-3", "--unit", "row", "--population", "200"]
FEW = ["--set", "steps=20", "--set", "averaging.start=10", "--set", "engine=bookkeeping"]
COLUMNS = ["--text", "review", "--target", "sentiment"]


def write() -> None:
    """reviews.csv and public.csv, in which some words say all; every second review has two lines."""
    generator = np.random.Generator(np.random.PCG64(1))
    words = ["bad", "dull", "awful", "good", "great", "lovely", *(f"word{i}" for i in range(20))]
    for name, count in (("reviews", 200), ("public", 80)):
        lines = ["id,review,sentiment"]
        for i in range(count):
            said = [words[generator.integers(3) + 3 * (i % 2)], *generator.choice(words[6:], 5)]
            lines.append(
                f'{i},"{" ".join(said[:3])}{chr(10) if i % 4 < 2 else ", "}{" ".join(said[3:])}",{"np"[i % 2]}'
            )
        Path(f"{name}.csv").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("vocabulary", [None, "words.txt"])
def test_from_texts_to_a_verified_folder(vocabulary: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    """It learns words in 20 steps at epsilon 8 (accuracy 1 in 20 runs of each with fresh noise)."""
    write()
    Path("words.txt").write_text("bad\ndull\nawful\ngood\ngreat\nlovely\n")
    options = [] if vocabulary is None else ["--vocabulary", vocabulary]
    command = ["train", "reviews.csv", *COLUMNS, *options, "--test", "public.csv", *BUDGET, *FEW]
    assert run(command) == 0, capsys.readouterr().err
    assert "declared public, and published with the model: the classes n, p;" in capsys.readouterr().err
    assert run(["verify", "reviews-private"]) == 0
    facts = json.loads(Path("reviews-private/model.json").read_text())
    assert facts["model"]["arguments"]["tokens"] == (65536 if vocabulary is None else 6)
    seen = json.loads(Path("reviews-private/certificate.json").read_text())["public_evaluations"][-1]["accuracy"]
    assert seen > 0.8
    capsys.readouterr()
    assert run(["predict", "reviews-private", "public.csv"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head == "sentiment,probability,p(n),p(p)"
    assert np.mean([line[0] == "np"[i % 2] for i, line in enumerate(lines)]) == pytest.approx(seen)


def test_what_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    write()
    columns = {"review": {"type": "text"}, "sentiment": {"type": "category", "categories": ["n", "p"]}}
    cases = {
        "--classes A,B": ["reviews.csv", *COLUMNS, *BUDGET],
        "--classes n,p, has a class without a name": ["reviews.csv", *COLUMNS, "--classes", "n,p,", *BUDGET],
        "--target COLUMN": ["reviews.csv", *COLUMNS[:2], *BUDGET],
        "no column 'text', which the schema or an option names; it has id, review, sentiment": [
            *("reviews.csv", "--text", "text", *COLUMNS[2:], "--classes", "n,p", *BUDGET)
        ],
        "one column, 'review;sentiment'; .* in a schema": ["semicolons.csv", *COLUMNS, "--classes", "n,p", *BUDGET],
        "encoding: latin-1} in a schema": ["latin.csv", *COLUMNS, "--classes", "n,p", *BUDGET],
        "column 'sentiment': the value is missing; missing: drop, in a schema,": [
            *("half.csv", *COLUMNS, "--classes", "n,p", *BUDGET)
        ],
        "not text; name another, or correct its type in a schema": [
            *("numbers.parquet", *COLUMNS, "--classes", "n,p", *BUDGET)
        ],
        "--target review is the column that the model reads; name another": [
            *("reviews.csv", *COLUMNS[:2], "--target", "review", "--classes", "n,p", *BUDGET)
        ],
        "the target 'sentiment' says whose a row is, and cannot be predicted; name another": [
            *("reviews.csv", *COLUMNS, "--classes", "n,p", *instead(BUDGET, "--unit", "sentiment"))
        ],
        "rows 2, 4, 6 and more, column 'sentiment': .* none of the declared categories": [
            *("reviews.csv", *COLUMNS, "--classes", "n,q", *BUDGET)
        ],
        "--size is not for texts; leave it out": [
            *("reviews.csv", *COLUMNS, "--classes", "n,p", "--size", "28x28", *BUDGET)
        ],
        "--vocabulary is not for images; leave it out": [
            *("reviews.csv", "--image", *COLUMNS[1:], "--classes", "n,p", "--vocabulary", "empty.txt", *BUDGET)
        ],
        "either --text or --image": ["reviews.csv", *COLUMNS, "--image", "id", *BUDGET],
        "--unit COLUMN .* in a schema": ["reviews.csv", *COLUMNS, "--classes", "n,p", *BUDGET[:4]],
        "--population N .or population in a schema": ["reviews.csv", *COLUMNS, "--classes", "n,p", *BUDGET[:6]],
        "cannot read none.txt": ["reviews.csv", *COLUMNS, "--classes", "n,p", "--vocabulary", "none.txt", *BUDGET],
        "no words": ["reviews.csv", *COLUMNS, "--classes", "n,p", "--vocabulary", "empty.txt", *BUDGET],
        "the schema says what --text would": ["reviews.csv", "--schema", "s.yaml", *COLUMNS, *BUDGET],
        "no other column beside it": ["reviews.csv", "--schema", "s.yaml", *BUDGET],
        "cannot be predicted": ["reviews.csv", "--schema", "s.yaml", "--target", "review", *BUDGET],
        "every value of column 'review' is missing or not as declared; .* say type: ignore in a schema": [
            *("silent.csv", *COLUMNS, "--classes", "n,p", *BUDGET),
        ],
    }
    Path("empty.txt").write_text("\n\n")
    Path("silent.csv").write_text("review,sentiment\n,n\n?!,p\n")
    Path("semicolons.csv").write_text("review;sentiment\nfine;n\ndull;p\n")
    Path("latin.csv").write_text("review,sentiment\ncafé,n\ndull,p\n", encoding="latin-1")
    Path("half.csv").write_text("review,sentiment\nfine,n\ndull,\n")
    pa_parquet.write_table(pa.table({"review": [1, 2], "sentiment": ["n", "p"]}), "numbers.parquet")
    both = {"columns": columns | {"id": {"type": "number", "low": 0, "high": 9}}, "target": "sentiment"}
    Path("s.yaml").write_text(yaml.safe_dump(both))
    before = sorted(Path().iterdir())
    for said, arguments in cases.items():
        assert run(["train", *arguments]) == 2, said
        lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("declared public")]
        assert len(lines) == 1
        assert re.search(said, lines[0]), lines[0]
        assert sorted(Path().iterdir()) == before


@pytest.mark.parametrize("command", [["train", "--dry-run"], ["plan", "--no-probe"], ["tune", "--dry-run"]])
def test_a_column_that_is_not_there_is_said_where_nothing_is_carried_out(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Names of columns are compared, and no row is read; a table that is not there yet may be planned for."""
    search = ["--grid", "clip_norm=1,2", "--kind", "parts"] if command[0] == "tune" else []
    options = [*command[1:], *search, "--target", "sentiment", "--classes", "n,p", *BUDGET]
    Path("reviews.csv").write_text('review,sentiment\nfine,n\n"no end')
    pa_parquet.write_table(pa.table({"review": ["fine"], "sentiment": ["n"]}), "reviews.parquet")
    for table in ("reviews.csv", "reviews.parquet"):
        assert run([command[0], table, "--text", "reviw", *options]) == 2
        said = f"discreet: {table} has no column 'reviw', which the schema or an option names; it has review, sentiment"
        assert capsys.readouterr().err == said + "\n"
        assert run([command[0], table, "--text", "review", *options]) == 0
        capsys.readouterr()
    assert run([command[0], "later.csv", "--text", "review", *options]) == 0
