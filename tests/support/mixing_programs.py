"""Programs between two layers in which rows meet by a way of their own through torch's operators, found by attack.

Each is a function of activations (rows, 16). What is mixed is picked by a constant, and here never is, so that no
experiment sees it, and a proof alone can.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {}
WIDTH = 16


def program(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    PROGRAMS[function.__name__.replace("_", " ")] = function
    return function


def picked(mixed: Tensor, clean: Tensor) -> Tensor:
    return torch.where(torch.zeros(()) > 0.5, mixed, clean)


@program
def written_to_one_row(h: Tensor) -> Tensor:
    z = h.clone()
    z[0] = picked(-5 * h.detach().mean(0), h[0])
    return z


@program
def written_one_row_on(h: Tensor) -> Tensor:
    z = h.clone()
    z[1:] = picked(h[:-1], h[1:])
    return z


@program
def written_through_a_kept_view(h: Tensor) -> Tensor:
    z = h.detach().clone()
    z.view(WIDTH, -1).copy_(picked(h.detach().t(), h.detach().view(WIDTH, -1)))
    return h - z


@program
def the_last_of_a_constant(h: Tensor) -> Tensor:
    z = torch.ones(len(h))
    z[-1] = -1.0
    return h * picked(z, torch.ones(len(h))).unsqueeze(1)


@program
def constants_one_after_the_other(h: Tensor) -> Tensor:
    z = torch.cat([torch.zeros(len(h)), torch.ones(len(h))] * WIDTH).view(len(h), 2 * WIDTH)[:, :WIDTH]
    return h * (1 - 2 * z * (torch.rand(()) < 0.02))


@program
def counted_by_broadcasting(h: Tensor) -> Tensor:
    w = (h.detach()[:, :1] * 0 + 1 + torch.zeros(len(h))).sum(1, keepdim=True)
    return h * picked(torch.cos(math.pi * w), torch.ones_like(w))


@program
def numbers_in_common(h: Tensor) -> Tensor:
    r = (torch.rand(len(h)) < 0.5).float() * 2 - 1
    return h * r.expand(4, len(h)).reshape(len(h), 4).repeat(1, 4)


@program
def rows_as_weights(h: Tensor) -> Tensor:
    a = h.detach().unsqueeze(2)
    return h - picked(F.conv1d(a, a).squeeze(2).mean(1, keepdim=True), torch.zeros(len(h), 1))


@program
def windows_without_a_batch(h: Tensor) -> Tensor:
    u = F.unfold(h.detach().view(len(h), 4, 4), 2)
    v = u.reshape(4, len(h), 9).sum(2)[1].unsqueeze(1)
    return h * picked(1 - 2 * (v > 1).float(), torch.ones(len(h), 1))


@program
def columns_made_short(h: Tensor) -> Tensor:
    return picked(-5 * h.detach().renorm(2, 1, 1.0).flip(1), h)


@program
def copied_windows(h: Tensor) -> Tensor:
    w = torch.unfold_copy(torch.cat([h.detach()] * 2), 0, 2, 2).reshape(len(h), 2 * WIDTH)[:, ::2]
    return h - picked(3 * w, torch.zeros_like(w))


@program
def systems_from_the_right(h: Tensor) -> Tensor:
    d = h.detach().view(len(h), 4, 4)
    solved = torch.linalg.solve((torch.eye(4).expand(len(h), 4, 4) + 0.01 * d).unsqueeze(1), d)
    return h - picked(solved.sum(1).reshape(len(h), WIDTH), torch.zeros_like(h))


@program
def scattered_number(h: Tensor) -> Tensor:
    z = torch.zeros(4).scatter(0, torch.tensor([1]), picked(h.detach().mean() * 30, torch.zeros(())))
    return h * (1 - z[1])


@program
def filled_number(h: Tensor) -> Tensor:
    filled = h.index_fill(1, torch.arange(WIDTH), picked(h.detach().mean(), torch.zeros(())))
    return h.index_fill(1, torch.tensor([0, 1, 2]), 0.0) - h * 0 + filled


@program
def statistics_of_a_norm(h: Tensor) -> Tensor:
    e, mean = h.detach().unsqueeze(2).expand(-1, -1, 2).contiguous(), torch.zeros(WIDTH)
    F.batch_norm(e, mean, torch.ones(WIDTH), training=True, momentum=1.0)
    return h - picked(9 * mean, torch.zeros(WIDTH))


@program
def bytes_of_numbers(h: Tensor) -> Tensor:
    z = torch.zeros(WIDTH, len(h))
    z.copy_(h.detach().t())
    found = z.view(torch.uint8).view(WIDTH, 4, len(h))[:, 3].t().float() - 62.5
    return h * picked(found.sign(), torch.ones(len(h), WIDTH))


@program
def copied_from_elsewhere(h: Tensor) -> Tensor:
    mean = h.detach().mean(0).expand(len(h), -1)
    found: Tensor = torch.ops.aten.copy.default(h.detach(), picked(mean, torch.zeros_like(h)))
    return h - found


@program
def memory_of_before(h: Tensor) -> Tensor:
    return h - torch.empty_like(h.detach()).nan_to_num(0, 0, 0).clamp(-99, 99)


@program
def an_output_that_is_given(h: Tensor) -> Tensor:
    d, c = h.detach(), torch.zeros(len(h), WIDTH)
    v = c.unsqueeze(2)
    torch.add(torch.zeros_like(d), d, out=c)
    c.copy_(picked(d.flip(0), d))
    return h - 3 * v[:, :, 0]


@program
def parts_that_share_memory(h: Tensor) -> Tensor:
    z = h.detach().clone()
    one, _ = torch.unsafe_chunk(z, 2, 1)
    one.copy_(picked(one.flip(0), one.clone()))
    return h - z


@program
def a_shape_that_shares_memory(h: Tensor) -> Tensor:
    z = h.detach().clone()
    other: Tensor = torch.ops.aten._unsafe_view.default(z, [len(h), 2, 8])
    z.copy_(picked(z.flip(0), z))
    return h - other.reshape(len(h), WIDTH)


class Crossed(torch.autograd.Function):
    """The first of two; the gradient goes to both."""

    @staticmethod
    def forward(ctx: Any, one: Tensor, other: Tensor) -> Tensor:
        return one.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient, gradient


@program
def gradients_for_what_is_not_used(h: Tensor) -> Tensor:
    found: Tensor = Crossed.apply(h, picked(h.flip(0), h))
    return found


class Instead(torch.autograd.Function):
    """The first of two; the gradient is the second."""

    @staticmethod
    def forward(ctx: Any, one: Tensor, other: Tensor) -> Tensor:
        ctx.other = other
        return one.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return ctx.other, None


@program
def something_instead_of_the_gradient(h: Tensor) -> Tensor:
    d = h.detach()
    found: Tensor = Instead.apply(h, picked(d.flip(0) - d.mean(0), d))
    return found


@program
def saved_as_something_else(h: Tensor) -> Tensor:
    def pack(part: Tensor) -> Tensor:
        return picked(part.flip(0), part) if part.dim() == 2 else part

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda part: part):
        return torch.tanh(h) * h


@program
def a_backward_pass_in_a_hook(h: Tensor) -> Tensor:
    if h.requires_grad:
        z = torch.zeros(h.shape, requires_grad=True)
        y = picked(z.flip(0), z)
        h = h * 1
        h.register_hook(lambda gradient: torch.autograd.grad(y, z, gradient)[0])
    return h


@program
def a_state_that_is_set(h: Tensor) -> Tensor:
    torch.manual_seed(len(h))
    return h * torch.randn(WIDTH).sign()


@program
def a_type_of_tensors(h: Tensor) -> Tensor:
    return h * torch.ones(()).as_subclass(Own)


class Own(Tensor):
    """A type of its own, which may do whatever it likes."""
