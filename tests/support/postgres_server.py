"""A PostgreSQL server of our own, on a socket in a temporary folder; for tests and benchmarks."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path


def find_programs() -> Path | None:
    """The folder with initdb and pg_ctl, and, for root, an account `postgres` to run them; else None."""
    if os.geteuid() == 0:
        try:
            pwd.getpwnam("postgres")
        except KeyError:
            return None
    on_path = shutil.which("initdb")
    folders = [Path(on_path).resolve().parent] if on_path else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "pg_ctl").exists()), None)


class PostgresServer:
    """Running from construction until `close`."""

    def __init__(self) -> None:
        programs = find_programs()
        assert programs is not None
        self._programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="discreet-pg-"))
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
        self._numbers = itertools.count()
        alike = ("--no-locale", "--encoding=UTF8")  # of the environment's locale come encoding and language of errors
        self._run("initdb", "-D", str(self.folder / "data"), "-U", "postgres", "--auth=trust", "--no-sync", *alike)
        self.start()

    def start(self) -> None:
        """Start it, again perhaps."""
        options = f"-c listen_addresses='' -k {self.folder} -c max_connections=60"
        log = str(self.folder / "log")
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-w", "-l", log, "-o", options, "start")

    def stop(self) -> None:
        """Stop it as a power cut would."""
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-w", "-m", "immediate", "stop")

    def new_database(self) -> str:
        """The address of a fresh database."""
        name = f"ledger{next(self._numbers)}"
        self._run("createdb", "-h", str(self.folder), "-U", "postgres", name)
        return f"postgresql://postgres@/{name}?host={self.folder}"

    def close(self) -> None:
        """Stop it and remove its files."""
        self.stop()
        shutil.rmtree(self.folder)

    def _run(self, program: str, *arguments: str) -> None:
        user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
        subprocess.run(
            [str(self._programs / program), *arguments],
            check=True,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **user,  # type: ignore[call-overload]
        )
