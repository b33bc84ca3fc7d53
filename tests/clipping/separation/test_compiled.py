"""Engines that run rows apart use no compiled code: which of it runs depends on the rows that came before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from problems import blobs, tiny_training
from torch import Tensor, nn

from discreet.clipping import Chunk, Clip


class Branches(nn.Module):
    """Its last digits, were it compiled, would depend on which kinds of rows were seen before."""

    def __init__(self, compiled: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.head, self.compiled = nn.Linear(4, 3), [compiled]

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.compiled[0](x))


@pytest.mark.parametrize("engine", ["exact", "reference"])
def test_what_was_compiled_is_not_run(tmp_path: Path, engine: str) -> None:
    ran: list[int] = []

    def backend(graph: Any, _inputs: Any) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            ran.append(len(given))
            return graph.forward(*given)

        return run

    torch._dynamo.reset()  # else it gives up on a function that was compiled often, by the other engine
    compiled = torch.compile(lambda x: torch.tanh(x) * 2, backend=backend)
    compiled(torch.randn(2, 4))
    assert ran, "the compiler works here"
    training = tiny_training(tmp_path, model=Branches(compiled), engine=engine)
    ran.clear()
    training.engine.clipped_sum(training.model, training.criterion, Chunk(*blobs(7)), Clip(1.0, 2.0**-30))
    assert not ran
    training.model(blobs(2)[0])
    assert ran, "users' own calls run it"
