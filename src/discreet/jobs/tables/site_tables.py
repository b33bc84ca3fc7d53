"""A private table, or the tables of several sites: one path with the number of the site in it. Each process reads those
of its own sites alone."""

from __future__ import annotations

from pathlib import Path

from discreet.core import checks
from discreet.core.errors import InputError
from discreet.core.processes import launched, local_rank_and_size, rank, world_size
from discreet.jobs.tables.table_facts import TableFacts

MARK = "{site}"
"""Stands in a path for the number of a site."""


def tables_read(path: Path, sites: int | None) -> dict[int, Path]:
    """The private tables that this process reads, by the numbers of their sites; that at `path` alone without sites.

    They are the tables that are on this machine, dealt out to its processes; or, where each machine has them all, dealt
    out to all processes.
    """
    if sites is None:
        return {0: path}
    tables = {site: Path(str(path).replace(MARK, str(site))) for site in range(sites)}
    here = [site for site, table in tables.items() if table.exists()]
    first, step = local_rank_and_size() if len(here) < sites else (rank(), world_size())
    return {site: tables[site] for site in here[first::step]}


def check_sites(path: Path, sites: int | None, options: TableFacts) -> None:
    """Refuse a path that does not fit the number of sites, and sites without a common schema. No row is read."""
    if sites is None:
        if MARK in str(path) and not path.exists():
            raise InputError(f"there is no file {path}; if {MARK} is the number of a site, say how many: --sites N")
        return
    checks.count("--sites", sites)
    if MARK not in str(path):
        raise InputError(
            f"--sites: every site has a table of its own; name them with {MARK} for the number, from 0 to {sites - 1}: "
            f"{path.with_name(f'{path.stem}-{MARK}{path.suffix}')}"
        )
    if options.schema is None:
        raise InputError("--sites: the tables of all sites have one schema, made of public facts: --schema FILE.yaml")
    found = tables_read(path, sites)
    missing = [site for site in range(sites) if site not in found]
    if not found and launched():
        names = [str(path).replace(MARK, str(site)) for site in (0, sites - 1)]
        raise InputError(f"of {names[0]} to {names[1]} none is here for this process; each needs one at least")
    if missing and not launched():
        raise InputError(f"there is no file {str(path).replace(MARK, str(missing[0]))} here; check the path")


def name_of(path: Path) -> str:
    """The name that a folder for the model takes from the path: without the ending, and the number of a site."""
    return path.stem.replace(MARK, "").strip("-_. ") or "sites"
