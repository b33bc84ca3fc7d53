"""The public names are exactly `__all__`, and every one resolves. In a fresh interpreter: submodules that other
tests imported would show up as attributes."""

import subprocess
import sys
from pathlib import Path

CHECK = """
import types
import discreet

names = getattr(discreet, "__all__", [])
assert len(set(names)) == len(names), "a name is listed twice"
assert not any(name.startswith("_") and name != "__version__" for name in names)
seen = {n for n in dir(discreet) if not n.startswith("_")}
present = {n for n in seen if n in names or not isinstance(getattr(discreet, n), types.ModuleType)}
present -= {"annotations", "TYPE_CHECKING"}
assert present <= set(names), f"public but not in __all__: {sorted(present - set(names))}"
if names:
    assert seen >= {n for n in names if not n.startswith("_")}, "dir() does not list every public name"
for name in names:
    assert getattr(discreet, name) is getattr(discreet, name), name
try:
    discreet.no_such_name
except AttributeError as error:
    assert "no_such_name" in str(error)
else:
    raise AssertionError("an unknown name must be an AttributeError")
"""

MOVED = """
import warnings
import discreet

for name in discreet._MOVED:
    with warnings.catch_warnings(record=True, action="always") as noted:
        found = getattr(discreet, name)
    (told,) = noted
    assert told.category is DeprecationWarning and told.filename == __file__, told
    now = str(told.message).removesuffix(" now").split()[-1]
    room, _, name = now.rpartition(".")
    assert getattr(__import__(room, fromlist=["x"]), name) is found, now
"""


def ended_well(path: Path, program: str) -> None:
    path.write_text(program)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_public_names(tmp_path: Path) -> None:
    ended_well(tmp_path / "names.py", CHECK)


def test_a_name_that_moved_says_where_it_is_now(tmp_path: Path) -> None:
    ended_well(tmp_path / "moved.py", MOVED)
