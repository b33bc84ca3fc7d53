"""The time of each phase of a job, for whoever runs it.

Times depend on private rows (on how many a batch had, say). They go to the data holder's own terminal, which is outside
the trust model, and never into what is published.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Phases:
    """Wall seconds by phase, in the order in which phases began; a phase that comes again adds up."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what happens inside as part of a phase."""
        start = time.perf_counter()
        self.seconds.setdefault(name, 0.0)
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start
