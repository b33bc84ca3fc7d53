"""Models in which rows meet always, or now and then.

Each is a class without arguments that takes rows of `FEATURES` numbers. `ALWAYS` mix in every call, `RARELY` with a
probability. What they draw before they mix has a shape that does not depend on the batch, so that with and without
a row the same is drawn.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FEATURES, HIDDEN, CLASSES = 8, 16, 2

Between = Callable[[Any, Tensor], Tensor]

ALWAYS: dict[str, type[nn.Module]] = {}
RARELY: dict[str, type[nn.Module]] = {}


class Two(nn.Module):
    """Two layers, with something between them. `p`: how often it is done, where that is drawn."""

    p = 0.1

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(FEATURES, HIDDEN), nn.Linear(HIDDEN, CLASSES)
        self.calls, self.rows = 0, 0
        self.kept: Any = None

    def between(self, h: Tensor) -> Tensor:
        return h

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.rows += len(x)
        output: Tensor = self.last(self.between(torch.relu(self.first(x))))
        return output


def entered(table: dict[str, type[nn.Module]], name: str, between: Between, **more: Any) -> None:
    """Enter a model of two layers, with something between them, into a table."""
    table[name] = type(name.title().replace(" ", ""), (Two,), {"between": between, **more})


def always(function: Between) -> Between:
    """Rows meet in every call."""
    entered(ALWAYS, function.__name__.replace("_", " "), function)
    return function


def now_and_then(*often: float) -> Callable[[Between], Between]:
    """Rows meet with some probability, which is drawn in every call."""

    def enter(function: Between) -> Between:
        def between(self: Any, h: Tensor) -> Tensor:
            return function(self, h) if self.training and bool(torch.rand(()) < self.p) else h

        for p in often:
            entered(RARELY, f"{function.__name__.replace('_', ' ')}, {p:g}", between, p=p)
        return function

    return enter


@now_and_then(1.0, 0.5, 0.1, 1e-3)
def manifold_mixup(self: Any, h: Tensor) -> Tensor:
    part = torch.rand(())
    return part * h + (1 - part) * h[torch.randperm(len(h))]


@now_and_then(0.1)
def cutmix(self: Any, h: Tensor) -> Tensor:
    mask = torch.arange(HIDDEN) < HIDDEN // 2
    return torch.where(mask, h, h.flip(0))


@now_and_then(0.1, 0.01)
def noise_by_deviation(self: Any, h: Tensor) -> Tensor:
    return h + torch.randn(HIDDEN) * h.detach().std()


@now_and_then(0.1)
def erased_by_mean(self: Any, h: Tensor) -> Tensor:
    return torch.cat([h[:, :4].mean(0, keepdim=True).expand(len(h), -1), h[:, 4:]], 1)


@now_and_then(0.5)
def shaken_by_neighbour(self: Any, h: Tensor) -> Tensor:
    return h * torch.sigmoid(h.roll(1, 0))


@now_and_then(0.2)
def token_swap(self: Any, h: Tensor) -> Tensor:
    other = torch.cat([h[1:], h[:1]])
    return torch.cat([other[:, :2], h[:, 2:]], 1)


@now_and_then(0.2)
def in_batch_negatives(self: Any, h: Tensor) -> Tensor:
    return h - torch.softmax(h @ h.t(), 1) @ h


@now_and_then(0.1)
def router_with_capacity(self: Any, h: Tensor) -> Tensor:
    chosen = h.sum(1).topk(max(1, len(h) // 2)).indices
    return h * torch.zeros(len(h), 1).index_fill(0, chosen, 1.0)


@now_and_then(0.1)
def sorted_along_the_batch(self: Any, h: Tensor) -> Tensor:
    return h.sort(0).values


@now_and_then(0.1)
def batch_norm(self: Any, h: Tensor) -> Tensor:
    return F.batch_norm(h, None, None, training=True)


@always
def hidden_choice(self: Any, h: Tensor) -> Tensor:
    """No branch: what is mixed is computed in every call, and hardly ever used."""
    return torch.where(torch.rand(()) < 1e-3, h.flip(0), h)


@always
def hidden_weight(self: Any, h: Tensor) -> Tensor:
    return torch.lerp(h, h.mean(0), (torch.randn(()) > 3.0).float())


@always
def group_norm_over_the_batch(self: Any, h: Tensor) -> Tensor:
    return F.group_norm(h.t().unsqueeze(0), 1).squeeze(0).t()


@always
def attention_across_rows(self: Any, h: Tensor) -> Tensor:
    one = h.unsqueeze(0)
    return F.scaled_dot_product_attention(one, one, one).squeeze(0)


@always
def convolution_across_rows(self: Any, h: Tensor) -> Tensor:
    return F.conv1d(h.t().unsqueeze(1), torch.ones(1, 1, 3), padding=1).squeeze(1).t()


@always
def divided_by_the_number_of_rows(self: Any, h: Tensor) -> Tensor:
    return h / len(h)


@always
def divided_by_a_count(self: Any, h: Tensor) -> Tensor:
    return h / h.new_ones(len(h)).sum()


@always
def weighed_by_position(self: Any, h: Tensor) -> Tensor:
    return h * torch.arange(len(h)).unsqueeze(1)


@always
def weighed_by_a_table(self: Any, h: Tensor) -> Tensor:
    return h * torch.linspace(1, 2, 1000)[: len(h), None]


@always
def the_last_row(self: Any, h: Tensor) -> Tensor:
    return h + h[len(h) - 1]


@always
def cumulative_sum(self: Any, h: Tensor) -> Tensor:
    return h.cumsum(0)


@always
def a_product_over_the_batch(self: Any, h: Tensor) -> Tensor:
    return h + torch.einsum("bi,bj->ij", h, h)[0]


@always
def through_numpy(self: Any, h: Tensor) -> Tensor:
    return h * float(h.detach().numpy().max())


@always
def through_a_list(self: Any, h: Tensor) -> Tensor:
    return h / (1 + max(map(max, h.detach().tolist())))


@always
def through_a_number(self: Any, h: Tensor) -> Tensor:
    return h / (1 + h.detach().abs().max().item())


@always
def a_threshold(self: Any, h: Tensor) -> Tensor:
    return h if bool(h.detach().abs().max() < 5) else 0.1 * h


@always
def written_through_another_shape(self: Any, h: Tensor) -> Tensor:
    buffer = torch.zeros(len(h), HIDDEN)
    buffer.view(HIDDEN, -1).t().copy_(h)
    return buffer


@always
def written_below_a_view(self: Any, h: Tensor) -> Tensor:
    h = h * 1
    view = h[:, :HIDDEN]
    h.add_(h.detach().flip(0))
    return view


@always
def how_many_are_positive(self: Any, h: Tensor) -> Tensor:
    return h / (1 + h.detach().nonzero().shape[0])


@always
def in_another_thread(self: Any, h: Tensor) -> Tensor:
    found: list[Tensor] = []
    thread = threading.Thread(target=lambda: found.append(h.detach().mean(0)))
    thread.start()
    thread.join()
    return h - found[0]


@always
def mean_kept_for_the_next(self: Any, h: Tensor) -> Tensor:
    before, self.kept = self.kept, h.detach().mean(0)
    return h if before is None else h - before


@always
def running_mean_as_a_number(self: Any, h: Tensor) -> Tensor:
    self.kept = 0.9 * (self.kept or 0.0) + 0.1 * float(h.detach().mean())
    return h - self.kept


@always
def a_queue(self: Any, h: Tensor) -> Tensor:
    self.kept = self.kept or collections.deque(maxlen=4)
    self.kept.append(h.detach())
    return h - torch.cat(list(self.kept)).mean(0)


class Hooked(Two):
    """A forward hook of the user's, on a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first.register_forward_hook(lambda *given: _swap(given[2]))


def _swap(h: Tensor) -> Tensor:
    return h.flip(0) if bool(torch.rand(()) < 0.1) else h


class Trimmed(nn.Module):
    """Cuts padding off to the longest row of the batch, and takes a mean over what is left."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.head = nn.Linear(1, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, : int((x != 0).sum(1).max())]
        output: Tensor = self.head(x.mean(1, keepdim=True))
        return output


ALWAYS["trimmed padding"] = Trimmed
RARELY["a forward hook"] = Hooked
