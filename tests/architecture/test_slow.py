"""The list of slow tests names tests that are there: a renamed test would move to the first tier unseen."""

from pathlib import Path

TESTS = Path(__file__).parent.parent


def test_each_slow_test_is_there() -> None:
    listed = (TESTS / "slow.txt").read_text().splitlines()
    gone = []
    for name in listed:
        file, *_, function = name.partition("[")[0].split("::")
        path = TESTS.parent / file
        if not path.is_file() or f"def {function}(" not in path.read_text():
            gone.append(name)
    assert gone == []
    assert listed == sorted(set(listed))
