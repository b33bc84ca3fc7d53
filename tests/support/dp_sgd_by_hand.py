"""DP-SGD as people write it by hand, right and wrong, to be audited."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

CLIP, NOISE, DIVISOR = 1.0, 1.2, 8.0
Step = Callable[[Tensor, Tensor], list[Tensor]]


def rows(count: int = 39) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, 6, generator=generator), torch.randint(0, 3, (count,), generator=generator)


def make(
    *,
    clip: Callable[[Tensor], Tensor] = lambda norm: (CLIP / norm.clamp(min=CLIP)).nan_to_num(0.0),
    noise: Callable[[Tensor], Tensor] = lambda total: NOISE * CLIP * torch.randn_like(total),
    divisor: Callable[[int, int], float] = lambda drawn, rows: DIVISOR,
    before: Callable[[Tensor], Tensor] = lambda inputs: inputs,
) -> Callable[[Tensor, Tensor], Step]:
    """`make` of `assert_private`, for a linear layer; each part can be another."""

    def made(inputs: Tensor, targets: Tensor) -> Step:
        torch.manual_seed(7)
        model = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3))
        parameters = list(model.parameters())

        def step(x: Tensor, y: Tensor) -> list[Tensor]:
            totals = [torch.zeros_like(one) for one in parameters]
            x = before(x)
            for i in range(len(x)):
                loss = nn.functional.cross_entropy(model(x[i : i + 1]), y[i : i + 1])
                gradient = torch.autograd.grad(loss, parameters)
                norm = torch.stack([one.double().norm() for one in gradient]).norm()
                factor = clip(norm).float()
                for total, one in zip(totals, gradient, strict=True):
                    total += one.nan_to_num(0.0, 0.0, 0.0) * factor
            return [(total + noise(total)) / divisor(len(x), len(inputs)) for total in totals]

        return step

    return made


WRONG: dict[str, tuple[Callable[[Tensor, Tensor], Step], str]] = {
    "no clipping": (make(clip=lambda norm: torch.ones(())), "replay/"),
    "clipped to twice the norm": (make(clip=lambda norm: 2 * CLIP / norm.clamp(min=2 * CLIP)), "replay/"),
    "noise of .9 of the scale": (make(noise=lambda total: 0.9 * NOISE * torch.randn_like(total)), "noise/scale"),
    "uniform noise": (make(noise=lambda total: NOISE * 12**0.5 * (torch.rand_like(total) - 0.5)), "noise/law"),
    "one number of noise for a tensor": (make(noise=lambda total: NOISE * torch.randn(()).expand_as(total)), "noise/"),
    "divided by the batch that was drawn": (make(divisor=lambda drawn, rows: max(1, drawn)), "replay/"),
    "divided by a share of the rows": (make(divisor=lambda drawn, rows: rows // 5 + 1.0), "replay/"),
    "batches are centred": (make(before=lambda x: x - x.mean(0) if len(x) else x), "replay/"),
    "noise from a fixed seed": (
        make(noise=lambda total: NOISE * torch.randn(total.shape, generator=torch.Generator().manual_seed(1))),
        "noise/",
    ),
}
