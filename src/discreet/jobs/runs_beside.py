"""Earlier runs on the same file, by the run folders that lie beside a new one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from discreet.core.disk import real, real_text
from discreet.jobs.language.begun_options import FILE
from discreet.jobs.run_folders import JOB


def runs_beside(file: Path, folder: Path) -> list[str]:
    """A line if `file` was trained on before, as run folders beside the run folder `folder` say; of tables and of
    language models."""
    path, found = real_text(file), []
    for one in sorted(real(folder).parent.glob("*.run")):
        for facts in (_facts(one / JOB), _facts(one / FILE)):
            try:
                if (facts["file"] if "file" in facts else facts["table"]["path"]) == path:
                    target = facts["--out"] if "file" in facts else facts["target"]
                    epsilon = facts["--epsilon"] if "file" in facts else facts["recipe"]["epsilon"]
                    found.append(f"{Path(target).name} (epsilon {epsilon:g})")
            except (ValueError, KeyError, TypeError):
                continue
    if not found:
        return []
    return [
        f"{file.name} was trained on before: {', '.join(found)}; what is given away adds up. --dataset-id NAME keeps "
        "account of all runs on it"
    ]


def _facts(file: Path) -> Any:
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
