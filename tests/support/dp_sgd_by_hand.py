"""DP-SGD as people write it by hand, right and wrong, to be audited."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

CLIP, NOISE, DIVISOR = 1.0, 1.2, 8.0
Tensors = list[Tensor]
Step = Callable[[Tensor, Tensor], Tensors]
Noise = Callable[[Tensor], Tensor]


def rows(count: int = 14) -> tuple[Tensor, Tensor]:
    """One more of them is a fifth more for a divisor that counts rows by fives."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, 6, generator=generator), torch.randint(0, 3, (count,), generator=generator)


def make(
    *,
    clip: Callable[[Tensor], Tensor] = lambda norm: (CLIP / norm.clamp(min=CLIP)).nan_to_num(0.0),
    noise: Callable[[Tensor], Tensor] = lambda total: NOISE * CLIP * torch.randn_like(total),
    divisor: Callable[[int, int], float] = lambda drawn, rows: DIVISOR,
    before: Callable[[Tensor], Tensor] = lambda inputs: inputs,
    each_run: Callable[[Noise], Noise] = lambda noise: noise,
    kept: Callable[[], Callable[[Tensors], Tensors]] = lambda: lambda totals: totals,
    unclipped: int | None = None,
) -> Callable[[Tensor, Tensor], Step]:
    """`make` of `assert_private`, for a linear layer; each part can be another. `each_run`: makes noise for one run;
    `kept`: makes of one run what becomes of its sums; `unclipped`: a label whose rows are not clipped."""

    def made(inputs: Tensor, targets: Tensor) -> Step:
        noise_of_run, change = each_run(noise), kept()
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
                factor = torch.ones(()) if int(y[i]) == unclipped else clip(norm).float()
                for total, one in zip(totals, gradient, strict=True):
                    total += one.nan_to_num(0.0, 0.0, 0.0) * factor
            return [(total + noise_of_run(total)) / divisor(len(x), len(inputs)) for total in change(totals)]

        return step

    return made


def seeded_once(_: Noise) -> Noise:
    """Noise of a generator that is made with the run, from a constant."""
    generator = torch.Generator().manual_seed(42)
    return lambda total: NOISE * CLIP * torch.randn(total.shape, generator=generator)


def biases_again(noise: Noise) -> Noise:
    """In every other step biases have the noise of the step before."""
    used: dict[torch.Size, list[Tensor]] = {}

    def noisy(total: Tensor) -> Tensor:
        fresh, seen = noise(total), used.setdefault(total.shape, [])
        if total.dim() == 1:
            seen.append(seen[-1] if len(seen) % 2 else fresh)
            return seen[-1]
        return fresh

    return noisy


def with_last(weight: float, now: float = 1.0) -> Callable[[], Callable[[Tensors], Tensors]]:
    """`now` times the sums of a step, and `weight` times those of the step before."""

    def of_run() -> Callable[[Tensors], Tensors]:
        last: list[Tensors] = []

        def change(totals: Tensors) -> Tensors:
            before = last[-1] if last else [torch.zeros_like(one) for one in totals]
            last.append(totals)
            return [now * one + weight * other for one, other in zip(totals, before, strict=True)]

        return change

    return of_run


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
    "noise of a generator that every run seeds alike": (make(each_run=seeded_once), "noise/two runs"),
    "noise of biases in two steps": (make(each_run=biases_again), "noise/steps, tensor by tensor"),
    "the sums of the step before, not clipped": (
        make(clip=lambda norm: torch.ones(()), kept=with_last(1.0, now=0.0)),
        "replay/loud, in one of several steps",
    ),
    "ten times the sums of the step before": (make(kept=with_last(-10.0)), "replay/loud, in one of several steps"),
    "the difference to the step before": (make(kept=with_last(-1.0)), "replay/loud, in one of several steps"),
    "label 0 is not clipped": (make(unclipped=0), "replay/"),
    "label 1 is not clipped": (make(unclipped=1), "replay/"),
    "label 2 is not clipped": (make(unclipped=2), "replay/"),
}
