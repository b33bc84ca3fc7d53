"""What is wrong with a command line is said before PyTorch is loaded, where nothing of it is needed to tell."""

import subprocess
import sys
from pathlib import Path

SCHEMA = """\
unit: row
population: 500
target: ill
columns:
  age: {type: number, low: 0, high: 120}
  ill: {type: boolean}
"""
FILES = {
    "s.yaml": SCHEMA,
    "draft.yaml": SCHEMA.replace("500", "FILL_IN"),
    "t.csv": "age,ill\n40,yes\n",
    "other.csv": "year,ill\n40,yes\n",
}
COMMANDS = """\
train none.csv --schema s.yaml --epsilon 1: there is no table none.csv
train none.csv --schema draft.yaml --epsilon 1: there is no table none.csv
train none.yaml: cannot read none.yaml
train nothing: nothing is no recipe
train t.csv --schema none.yaml --epsilon 1: cannot read none.yaml
train t.csv --schema s.yaml --epsilon 1 --test none.csv: --test: there is no file or folder none.csv
train other.csv --schema s.yaml --epsilon 1: other.csv has no column 'age'
train t.csv --schema s.yaml --target sick --epsilon 1: the target 'sick' is not a column
train t.csv --schema s.yaml --epsilon -1: --epsilon must be finite and greater than 0
train digits --delta 2: --delta must be finite, greater than 0 and less than 1
train digits --out t.csv: t.csv exists already, and is no folder
train digits --out t.csv/a: t.csv is no folder; name another
train digits --processes 0: --processes must be at least 1
tune digits --trials 0: --trials must be finite and greater than 0
train digits --out taken: taken exists already
tune digits --out taken: taken exists already
predict taken t.csv: cannot read taken/certificate.json
predict taken t.csv --out t.csv: t.csv exists already
generate taken --model m --prompt x: cannot read taken/certificate.json
"""
PROGRAM = f"""\
import sys
from discreet.cli.app import run
for line in {COMMANDS!r}.splitlines():
    command = line.partition(": ")[0]
    assert run(command.split()) == 2, command
sys.exit("torch" in sys.modules)
"""


def test_refusals_need_no_torch(tmp_path: Path) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path
    )
    said = done.stderr.splitlines()
    wanted = [line.partition(": ")[2] for line in COMMANDS.splitlines()]
    assert len(said) == len(wanted), said
    assert all(words in line for words, line in zip(wanted, said, strict=True)), said
    assert done.returncode == 0, "torch was loaded"
