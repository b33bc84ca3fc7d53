"""Mistakes with data at sites end in an error in every process, and nothing is released for the step."""

import json
import re
from pathlib import Path

import pytest
from forked import started
from problems import blobs, tiny_plan
from site_runs import site, sites, training

from discreet.core.errors import InputError
from discreet.data import Augmented, Sites, as_private, flip
from discreet.plan import Metric

MET = {
    "a_site_twice": "site 2 is held by processes 0 and 1",
    "a_site_missing": "site 2 is held by no process",
    "other_counts": "count different numbers of sites",
    "a_number_too_large": "site 3: of 3 sites the last is 2",
    "no_site": "process 1 holds no site",
    "no_sites_in_one": "process 1 gives data that does not lie at sites",
    "lanes_too": "leave lanes out",
    "all_rows_at_each": "more units together than the declared population allows",
    "the_same_rows_at_two": "sites 0 and 1 have the same rows",
    "another_form": "another form of rows",
    "a_fixed_size": "'fixed_size' draws units that depend on each other",
    "a_holdout_by_place": "give ids, a name for each row",
    "another_stream": "not at the same step",
    "a_site_computed_twice": "not added every drawn unit exactly once",
    "a_unit_left_out": "not added every drawn unit exactly once",
}
"""What both processes say."""

APART = {
    "a_row_that_is_no_number": (
        "process 1: it failed with InputError",
        "a feature in row 1 of the data, counted from 0, is NaN",
    ),
    "a_row_that_is_gone": ("process 1: it failed with InputError", "row . of the file at site 1 is gone"),
    "no_users": ("units and ids must be given site by site", "process 0: it failed with InputError"),
}
"""What each process says, where rows may show in it."""

SOME = ("a_site_twice", "a_site_missing", "a_unit_left_out")


def check(folder: Path, *mistakes: str) -> None:
    started(2, "site_mistakes.py", str(folder), *mistakes, timeout=120)
    for name in mistakes:
        for rank in range(2):
            _, words, count = json.loads((folder / f"{name}.{rank}").read_text())
            said = APART[name][rank] if name in APART else MET[name]
            assert re.search(said, words), (name, rank, words)
            assert count == (1 if name == "a_row_that_is_gone" else 0), name


def test_a_mistake_ends_all_processes(tmp_path: Path) -> None:
    check(tmp_path, *SOME)


def test_so_does_every_other_and_rows_show_where_they_lie_alone(tmp_path: Path) -> None:
    check(tmp_path, *[name for name in (*MET, *APART) if name not in SOME])


def test_no_process_tells_how_many_units_it_has_drawn(tmp_path: Path) -> None:
    check_good(tmp_path, "unnoticed")


def test_sites_may_be_counted_by_numpy(tmp_path: Path) -> None:
    check_good(tmp_path, "a_count_of_numpy")


def check_good(folder: Path, name: str) -> None:
    """Both processes release every step."""
    started(2, "site_mistakes.py", str(folder), name, timeout=120)
    for rank in range(2):
        kind, words, count = json.loads((folder / f"{name}.{rank}").read_text())
        assert (kind, words) == ("nothing", "")
        assert count > 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"shard": None}, 'give shard="replicate"'),
        ({"data": Sites({0: blobs()}, 2)}, "site 1 is held by no process"),
        ({"data": Sites({0: site(0), "b": site(1)}, 2)}, "the number of a site must be a whole number"),
        ({"data": Sites({0: site(0), 1: [blobs()][:0]}, 2)}, "site 1 has no row"),
        ({"data": Sites({0: site(0), 1: Augmented(site(1), flip())}, 2)}, "augment all alike"),
        ({"data": Sites({0: site(0), 1: [*zip(*site(1), strict=True)]}, 2)}, "in different ways"),
        ({"data": Sites({0: site(0), 1: (site(1)[0].double(), site(1)[1])}, 2)}, "different types or shapes"),
        ({"data": Sites([site(0)], 1)}, "rows must be named by their sites"),
        ({"data": Sites({0: site(0)}, 0)}, "of, the number of sites, must be at least 1"),
    ],
)
def test_what_one_process_cannot_take(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        training(tmp_path, **changes)


def test_a_run_keeps_its_sites(tmp_path: Path) -> None:
    training(tmp_path).run()
    for data in (blobs(), Sites({0: site(0), 1: site(1)}, 2)):
        with pytest.raises(InputError, match="the run began with data at 3 sites"):
            training(tmp_path, data=data, resume=True)
    training(tmp_path / "whole", data=blobs()).run()
    with pytest.raises(InputError, match="began with data that each process has whole"):
        training(tmp_path / "whole", resume=True)


def test_sites_are_given_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="data at sites must be given as it is"):
        training(tmp_path, data=as_private(sites([0, 1, 2])))


def test_somebody_is_held_out(tmp_path: Path) -> None:
    plan = tiny_plan(population=34, holdout=0.3, metrics=[Metric(kind="accuracy", noise=20.0, rows="holdout")])
    names = {number: [number] * len(site(number)[1]) for number in (0, 1, 2)}
    with pytest.raises(InputError, match="takes no row of any site"):
        training(tmp_path, plan=plan, ids=names)


def test_a_user_is_at_one_site(tmp_path: Path) -> None:
    """As far as one process can see."""
    users = {number: [7, *range(10 * number, 10 * number + len(site(number)[1]) - 1)] for number in (0, 1, 2)}
    plan = tiny_plan(population=24, batch=8, unit="user")
    with pytest.raises(InputError, match="a user has rows at site 0 and at site 1"):
        training(tmp_path, plan=plan, units=users)


def test_public_rows_are_not_those_of_a_site(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="shares rows"):
        training(tmp_path, data=Sites(dict(enumerate(own := [site(0), site(1), site(2)])), 3), public_test=own[1])


def test_views_are_of_all_sites_alike(tmp_path: Path) -> None:
    assert training(tmp_path, data=Augmented(sites([0, 1, 2]), lambda rows: 2 * rows, views=2)).run().charged_steps
