"""The public names are exactly `__all__`, and every one resolves. In a fresh interpreter: submodules that other
tests imported would show up as attributes."""

import subprocess
import sys

import pytest

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


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """Both programs, one after the other, in one interpreter."""
    folder = tmp_path_factory.mktemp("programs")
    for name, program in (("names", CHECK), ("moved", MOVED)):
        (folder / f"{name}.py").write_text(f"{program}\nprint({name!r}, 'end well')\n")
    (folder / "both.py").write_text("import names\nimport moved\n")
    command = [sys.executable, str(folder / "both.py")]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_public_names(programs: subprocess.CompletedProcess[str]) -> None:
    assert programs.stdout.startswith("names end well\n"), programs.stderr


def test_a_name_that_moved_says_where_it_is_now(programs: subprocess.CompletedProcess[str]) -> None:
    assert programs.stdout == "names end well\nmoved end well\n", programs.stderr
    assert programs.returncode == 0, programs.stderr
