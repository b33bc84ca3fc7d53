"""The public names are exactly `__all__`, and every one resolves. In a fresh interpreter: submodules that other
tests imported would show up as attributes."""

import subprocess
import sys

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


def test_public_names() -> None:
    done = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
