"""Programs between two layers in which rows meet by what tensors are made of: numbers that are drawn, constants, memory
that nobody wrote to, and views in which the size of the batch is the length of two axes. See `mixing_programs`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import torch
from mixing_programs import WIDTH
from torch import Tensor
from torch.utils.checkpoint import checkpoint

MADE: dict[str, Callable[[Tensor], Tensor]] = {
    "drawn about a mean": lambda h: h + torch.normal(-5 * h.detach().mean(0), 0.1),
    "drawn with a deviation": lambda h: h + torch.normal(0.0, h.detach().std(0, correction=0)),
    "between extremes": lambda h: h - torch.linspace(h.detach().min(), h.detach().max(), WIDTH),
    "between extremes of exponents": lambda h: h - torch.logspace(h.detach().min(), h.detach().max(), WIDTH),
    "drawn below a maximum": lambda h: (
        h - torch.randint_like(torch.zeros(WIDTH), (h.detach().max() * 10).long().abs() + 1)
    ),
    "the size of the batch as a sum": lambda h: (
        h * torch.cos(math.pi * torch.empty(len(h), WIDTH).copy_(torch.ones(WIDTH)).sum(0))
    ),
    "distances of all pairs": lambda h: h * torch.cos(_distances(h.detach().view(len(h), 4, 4))),
    "products of all pairs": lambda h: h * torch.cos(_products(h.detach(), [1], [0], [1, 2]).view(-1, 1)),
    "products of each row, added up": lambda h: h * torch.cos(_products(h.detach(), [], [], [0])),
    "a view of another layout": lambda h: _other_layout(h, lambda z: z.t_()),
    "axes changed in place": lambda h: _other_layout(h, lambda z: z.transpose_(0, 1)),
    "an axis more in place": lambda h: _other_layout(h, lambda z: z.unsqueeze_(0)),
    "axes swapped in place, read in the old order": lambda h: h * _swapped(h).reshape(len(h), WIDTH),
    "axes swapped in place, and a mean": lambda h: h - _swapped(h).mean(1),
    "axes swapped in place, and a mean written": lambda h: _swapped(h).sub_(h.detach().mean(0).unsqueeze(1)).t(),
    "axes swapped in place, and seen elsewhere": lambda h: _seen_elsewhere(h * 1.0),
    "axes swapped in place, under what autograd holds": lambda h: _swapped_under_autograd(h),
    "axes swapped in place, and computed again": lambda h: _swapped_and_computed_again(h, lambda z: z),
    "axes swapped in place, and a view computed again": lambda h: _swapped_and_computed_again(h, lambda z: z[:]),
    "axes swapped in place, under the output that autograd holds": lambda h: _swapped_and_computed_again(h, torch.exp),
    "strides changed in place": lambda h: h * (h * 1.0).as_strided_((len(h), WIDTH), (1, len(h))),
    "strides of the first row in place": lambda h: h * (h * 1.0).as_strided_((len(h), WIDTH), (0, 1)),
    "a place further on in place": lambda h: (
        h * torch.cat([h, h])[: len(h)].as_strided_((len(h), WIDTH), (WIDTH, 1), WIDTH)
    ),
    "where each begins": lambda h: h * torch.cos(torch.stack([torch.arange(0, 2 * len(h), 2)] * 2, 1)[:, :1].float()),
    "memory of nobody": lambda h: torch.stack([h.detach(), torch.empty_like(h)], 0)[1] + h,
    "a square": lambda h: h * torch.cos(1000 * _first_column(torch.zeros(len(h), len(h))).mean(1, keepdim=True)),
    "numbers as a mask": lambda h: h * _where(torch.ones(len(h), 1), torch.arange(len(h)).to(torch.bool)),
    "whole numbers in halves": lambda h: (
        h * (1 - 2 * torch.ones(len(h), dtype=torch.int64).view(torch.int32).view(2, len(h))[0].unsqueeze(1).float())
    ),
    "complex numbers in parts": lambda h: (
        h * (1 - 2 * torch.view_as_real(torch.full((len(h),), 1 + 0j)).reshape(2, len(h))[0].unsqueeze(1))
    ),
    "drawn, and compared with the first": lambda h: h * _compared(torch.rand(len(h), WIDTH), lambda r: r[:1]),
    "drawn, and compared in another order": lambda h: (
        h * _compared(torch.rand(len(h), WIDTH), lambda r: r.view(WIDTH, len(r)).t())
    ),
    "written over an expanded tensor": lambda h: h * (1 - _marked(h.new_zeros(WIDTH).expand_as(h), h > 5)),
    "put into an expanded tensor": lambda h: h * _put(h.new_zeros(1, WIDTH).expand(len(h), WIDTH)),
    "numbers between edges": lambda h: h.index_select(0, torch.bucketize(torch.arange(len(h)), torch.arange(40))),
    "numbers in a table": lambda h: h[
        torch.nn.functional.embedding(torch.arange(len(h)), torch.arange(64.0).clamp(max=40)[:, None])
        .squeeze(-1)
        .long()
    ],
    "written over what is saved": lambda h: _written_later(torch.exp(h)),
    "a public place among examples": lambda h: h + h[:, :1].repeat(3000, 1)[2520 : 2520 + len(h)],
    "one draw for all": lambda h: h * torch.rand(()),
    "one mask for all": lambda h: h * torch.nn.functional.dropout(torch.ones(WIDTH), 0.5),
    "one order for all": lambda h: h[:, torch.randperm(WIDTH)],
    "one noise for all": lambda h: h + torch.zeros(WIDTH).normal_(),
    "one choice for all": lambda h: h if bool(torch.rand(()) < 0.5) else 1 - h,
}


def _marked(m: Tensor, where: Tensor) -> Tensor:
    with warnings.catch_warnings(action="ignore"):  # torch warns of it
        return m.masked_fill_(where, 1.0)


def _put(m: Tensor) -> Tensor:
    with warnings.catch_warnings(action="ignore"):
        m[torch.arange(len(m)), torch.zeros(len(m), dtype=torch.long)] = 1.0
    return m


def _written_later(h: Tensor) -> Tensor:
    out = h * 0.1
    saved = h.data
    saved.sub_(saved.amax(0))
    return out


def _distances(d: Tensor) -> Tensor:
    return torch.cdist(d.unsqueeze(1), d).sum((1, 2, 3)).view(-1, 1)


def _products(h: Tensor, one: list[int], other: list[int], summed: list[int]) -> Tensor:
    """Products of features of two rows, which get axes, summed over axes: a bilinear layer whose rows meet."""
    axes = h.dim() + len(one)
    return torch._trilinear(h, h, torch.ones(h.shape[1]), one, other, list(range(axes - 1)), summed)


def _other_layout(h: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    z = h * 1.0
    other = z.view(WIDTH, len(h))
    change(z)
    return other.t()


def _swapped(h: Tensor) -> Tensor:
    return (h * 1.0).transpose_(0, 1)


def _swapped_under_autograd(h: Tensor) -> Tensor:
    """The derivative by u multiplies with z as it lies in the backward pass; torch would see a write by its version."""
    z, u = h[:, :1] * 1.0, h[:, 1:2] * 1.0
    product = z * u
    with torch.autograd._unsafe_preserve_version_counter(z):
        z.transpose_(0, 1)
    return torch.cat([product, h[:, 1:]], 1)


def _swapped_and_computed_again(h: Tensor, held: Callable[[Tensor], Tensor]) -> Tensor:
    """A checkpoint computes its product again, with z as it lies by then."""
    z, u = h[:, :1] * 1.0, h[:, 1:2] * 1.0
    product = checkpoint(lambda u: held(z) * u, u, use_reentrant=False, determinism_check="none")
    z.transpose_(0, 1)
    return torch.cat([product, h[:, 1:]], 1)


def _seen_elsewhere(z: Tensor) -> Tensor:
    seen = z.view(len(z), WIDTH)
    z.transpose_(0, 1)
    z.sub_(z.detach().mean(1, keepdim=True))
    return seen * 1.0


def _first_column(z: Tensor) -> Tensor:
    z[:, 0] = 1.0
    return z


def _where(z: Tensor, mask: Tensor) -> Tensor:
    z[mask] = -1.0
    return z


def _compared(r: Tensor, other: Callable[[Tensor], Tensor]) -> Tensor:
    return 1 - 2 * (r == other(r)).all(1, keepdim=True).float()
