"""The files of the page on plug-ins work as an installed package, and nothing of them is certified by mistake."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from discreet.accounting import schedules
from discreet.cli.app import run as command
from discreet.core.errors import InputError
from discreet.core.imports.plug_ins import TABLES
from discreet.plan import Plan

PAGE = (Path(__file__).parents[2] / "docs" / "plug-ins.md").read_text()
FILES = dict(re.findall(r"^`(\w+\.py)`:\n\n```py\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
PUBLISHED = """
import torch, discreet

def trained(plan, optimizer=None):
    model = torch.nn.Linear(3, 2)
    optimizer = (optimizer or torch.optim.SGD)(model.parameters(), lr=0.1)
    rows = torch.randn(40, 3), torch.arange(40) % 2
    return discreet.Training(plan, model, torch.nn.CrossEntropyLoss(), optimizer, rows).run(progress=False)

facts = {"population": 40, "steps": 6, "delta": 1e-5, "noise_multiplier": 2.0}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the page, and what pip would write of their package."""
    folder = tmp_path_factory.mktemp("site")
    for name, code in FILES.items():
        (folder / name).write_text(code)
    (declared,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    project = tomllib.loads(declared)["project"]
    facts = folder / "my_privacy-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {where}" for name, where in points.items()))
    ]
    (facts / "entry_points.txt").write_text("\n".join(lines) + "\n")
    assert set(FILES) == {f"{one}.py" for points in project["entry-points"].values() for one in points.values()}
    return folder


def run(arguments: list[str], where: Path, site: Path, code: int = 0) -> str:
    """What Python prints with `site` among its folders."""
    environment = os.environ | {"PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=where,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("line", re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0].splitlines())
def test_the_commands_of_the_page_work(line: str, installed: Path, tmp_path: Path) -> None:
    said = run(["-m", *line.split()], tmp_path, installed)
    assert "epsilon" in said
    if "--out" in line:
        assert "ACCEPTED" in run(["-m", "discreet", "verify", "signed"], tmp_path, installed)
    else:
        assert "coins" in line or "saw" in line
        without = run(["-m", *line.split()], tmp_path, tmp_path, code=2)
        assert "coins" in without or "unknown schedule 'saw'" in without


def test_schedules_and_optimizers_are_certified(installed: Path, tmp_path: Path) -> None:
    program = (
        PUBLISHED
        + """
from discreet.accounting.schedules import parse
from signum import Signum

noise = parse("saw:initial=2,end=1,period=4,per=step")
assert [noise.multiplier(t) for t in range(6)] == [2.0, 1.75, 1.5, 1.25, 2.0, 1.75]
plan = discreet.Plan.poisson(batch=20, clip_norm=1.0, **(facts | {"noise_multiplier": noise}))
assert plan.multipliers == [(2.0, 1), (1.75, 1), (1.5, 1), (1.25, 1), (2.0, 1), (1.75, 1)]
discreet.publish(trained(plan, Signum), "out")
print(discreet.verify("out", strict=True))
"""
    )
    assert "ACCEPTED" in run(["-c", program], tmp_path, installed)


UNPUBLISHED = {
    "discreet.Plan.make(CoinSampling(), clip_norm=1.0, **facts)": "plan.sampling is of no known kind",
    "discreet.Plan.poisson(batch=20, clipping={'kind': 'halved', 'norm': 1.0, 'later': 3}, **facts)": "halved",
}


def test_samplers_and_clip_rules_train_and_are_not_published(installed: Path, tmp_path: Path) -> None:
    """Each is refused by itself; both in one process, as it takes long to start."""
    program = (
        PUBLISHED
        + f"""
from coins import CoinSampling

for plan in ({", ".join(UNPUBLISHED)}):
    found = trained(plan)
    try:
        discreet.publish(found, "out")
    except discreet.InputError as error:
        print("refused:", error)
"""
    )
    said = run(["-c", program], tmp_path, installed)
    warned = "what this run trains cannot be published, as no verifier can check it: plan."
    assert said.count(warned) == len(UNPUBLISHED)
    refused = [line for line in said.splitlines() if line.startswith("refused:")]
    assert all(fault in line for fault, line in zip(UNPUBLISHED.values(), refused, strict=True))
    assert not (tmp_path / "out").exists()


def test_a_plug_in_that_is_broken_is_named_and_verifying_imports_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "site"
    (broken / "torn-1.0.dist-info").mkdir(parents=True)
    (broken / "torn.py").write_text("raise RuntimeError('torn')")
    (broken / "torn-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: torn\nVersion: 1.0\n")
    points = "".join(f"[discreet.{table}]\ntorn = torn\n" for table in TABLES)
    (broken / "torn-1.0.dist-info" / "entry_points.txt").write_text(points)
    said = run(["-m", "discreet", "epsilon", "--rate", "0.1", "--noise", "1"], tmp_path, broken, code=2)
    assert "the plug-in 'torn' of the package torn cannot be loaded (RuntimeError: torn)" in said
    monkeypatch.chdir(tmp_path)
    assert command(["train", "digits", "--set", "steps=3", "--out", "new"]) == 0  # its pages are written again
    assert "ACCEPTED" in run(["-m", "discreet", "verify", "new"], tmp_path, broken)


@pytest.mark.parametrize(("name", "needs", "match"), [("time", [], "already"), ("new", ["speed"], "may need")])
def test_a_schedule_that_cannot_be_registered_is_refused(name: str, needs: list[str], match: str) -> None:
    with pytest.raises(InputError, match=match):
        schedules.register(name, *needs)


@pytest.mark.parametrize(("name", "table"), [("coins.py", "samplers"), ("halved.py", "clip rules")])
def test_what_is_registered_after_plans_have_read_the_table_is_refused(name: str, table: str) -> None:
    assert Plan.__name__ == "Plan"  # imported above, and with it the table was read
    with pytest.raises(InputError, match=f"registered after Plan was imported, which knows the {table} of that moment"):
        exec(FILES[name], {"__name__": "late"})
