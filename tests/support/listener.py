"""A callback that keeps what it is told."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from discreet.training import Opening, Told


class Listener:
    """Keeps what it is told, and in which order it is entered and left."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.heard: list[Opening | Told | str] = []
        self._fail_at = fail_at

    def __enter__(self) -> Self:
        self.heard.append("entered")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heard.append("left")

    def begin(self, opening: Opening) -> None:
        self.heard.append(opening)

    def tell(self, told: Told) -> None:
        self.heard.append(told)
        if told.step == self._fail_at:
            raise RuntimeError("a callback broke")


def told_of(listener: Listener) -> list[Told]:
    return [one for one in listener.heard if isinstance(one, Told)]
