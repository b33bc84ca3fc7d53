"""Gradients that go another way than numbers: behind what was written over, or by a tensor in the same place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from broadcasting import Held, Meets, rows
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk, Clip
from discreet.clipping.separation import Mixes, proved
from discreet.clipping.separation.examine import recorded
from discreet.clipping.separation.recording.recorder import as_proved

LOSS = nn.CrossEntropyLoss(reduction="none")


def running(model: nn.Module) -> Callable[[int], None]:
    """Clipped sums of random rows."""

    def run(count: int) -> None:
        ENGINES["bookkeeping"].clipped_sum(model, LOSS, Chunk(*rows(count)), Clip(1.0, 2.0**-30))

    return run


def of_all(h: Tensor) -> Tensor:
    """A number made of all examples; zero for ordinary ones."""
    return (h.detach() > 2).float().sum()


def other_order(h: Tensor) -> Tensor:
    """Numbers of the examples, of shape (5 x batch, 4), place by place."""
    return h.detach().transpose(0, 1).reshape(-1, 4)


MADE: dict[str, Callable[[Held, Tensor], Tensor]] = {
    "rows times a number of all": lambda m, h: h * of_all(h),
    "the sum of rows": lambda m, h: h.sum(0) * 1.0,
    "rows in the other order": lambda m, h: h.flip(0) * 1.0,
    "a parameter times a number of all": lambda m, h: m.scale * of_all(h),
    "a function of it times that": lambda m, h: m.scale.exp() * of_all(h),
    "a choice made of all": lambda m, h: torch.where((of_all(h) > 0) & torch.ones(4, dtype=torch.bool), m.scale, 0.0),
}
"""Tensors of which gradients of examples meet."""

WRITERS: dict[str, Callable[[Tensor], object]] = {
    "zeros": lambda made: made.zero_(),
    "a number": lambda made: made.fill_(0.1),
    "a number to each entry": lambda made: made.__setitem__(..., 0.1),
    "by another name": lambda made: made.detach().zero_(),
    "past autograd": lambda made: made.data.zero_(),
    "by a view": lambda made: made.view(-1).zero_(),
    "and more": lambda made: made.zero_().add_(1.0),
    "by a new start": lambda made: nn.init.constant_(made, 0.3),
    "as an output": lambda made: torch.mul(torch.ones(made.shape), 0.1, out=made),
}
"""Ways to write something harmless over a tensor."""


@pytest.mark.parametrize("way", WRITERS)
@pytest.mark.parametrize("what", MADE)
def test_numbers_that_are_written_over_leave_the_gradient_as_it_was(what: str, way: str) -> None:
    def meets(model: nn.Module, h: Tensor) -> Tensor:
        assert isinstance(model, Held)
        made = MADE[what](model, h)
        with torch.no_grad():
            WRITERS[way](made)
        return h + made

    with pytest.raises(Mixes):
        proved(running(Held(meets)))


def test_so_do_rows_that_are_written_over_rows_in_another_order() -> None:
    def meets(_: nn.Module, h: Tensor) -> Tensor:
        made = (h * 1.0).reshape(-1, 4) * 1.0
        with torch.no_grad():
            torch.mul(other_order(h), 0.1, out=made)
        return h + made.reshape(5, -1, 4).transpose(0, 1)

    with pytest.raises(Mixes):
        proved(running(Held(meets)))


def test_what_autograd_sees_is_no_cause_for_alarm() -> None:
    def meets(model: nn.Module, h: Tensor) -> Tensor:
        made = torch.zeros_like(h)
        made[:, :2] = h[:, :2] * model.scale
        made[:, 2:] = 1.0
        return made.mul_(2.0).add_(h) + torch.empty_like(h).bernoulli_(0.5)

    proved(running(Held(meets)))


def by_view(model: nn.Module, h: Tensor) -> Tensor:
    """A parameter, or a view of it: the numbers of the steps above them are others."""
    seen = model.scale.view(4)  # type: ignore[operator]
    used = h[:, 0] * (model.scale if len(h) == 9 else seen)
    return h + (used + torch.zeros(9, 1, 1)).mean(0).unsqueeze(1)


def by_leaf(_: nn.Module, h: Tensor) -> Tensor:
    """Rows, or a new beginning of their gradients."""
    leaf = h.detach().requires_grad_()
    return (leaf if len(h) == 9 else h) * 1.0


def by_names(model: nn.Module, h: Tensor) -> Tensor:
    """The steps are the same by their names."""
    nine, scale = len(h) == 9, model.scale
    once = scale.expand(4)  # type: ignore[operator]
    rows_of = (scale if nine else once).expand(len(h), 4)  # type: ignore[operator]
    leaf = rows_of.detach().requires_grad_()
    more = (rows_of if nine else leaf).expand(9, len(h), 4)
    return h + (leaf if nine else rows_of).unsqueeze(1) + (more * h[:, 0]).mean(0).unsqueeze(1)


def over(used: Tensor) -> Tensor:
    """Something for each example that depends on all of them, at nine rows."""
    return (used + torch.zeros(9, 1, 1)).mean(0)


def by_base(model: nn.Module, h: Tensor) -> Tensor:
    """Which of two numbers is written to a base, and which to another one in its memory."""
    first, second = over(h[:, 0].detach() * model.scale), over(h[:, 0].detach() * model.scale.view(4))  # type: ignore[operator]
    base = torch.zeros(len(h), 4)
    other, read = base.detach(), base.view(-1, 4)
    one, two = base.view(-1, 4), other.view(-1, 4)
    if len(h) == 9:
        one.copy_(first)
        two.copy_(second)
    else:
        two.copy_(first)
        one.copy_(second)
    return h + read.unsqueeze(1)


def by_name(model: nn.Module, h: Tensor) -> Tensor:
    """A parameter with the name of what is none."""
    known = model._parameters["a leaf"]
    assert known is not None
    leaf = known.detach().requires_grad_()
    one, two = (known, leaf) if len(h) == 9 else (leaf, known)
    return h + (over(h[:, 0].detach() * one) + over(h[:, 0].detach() * two.view(4))).unsqueeze(1)


SWAPPED: dict[str, Meets] = {
    "view": by_view,
    "leaf": by_leaf,
    "names": by_names,
    "base": by_base,
    "name": by_name,
}


@pytest.mark.parametrize("name", SWAPPED)
def test_another_graph_of_the_same_operators_is_another_program(name: str) -> None:
    """At nine rows the model takes another tensor in the same place of memory."""
    model = Held(SWAPPED[name])
    model.register_parameter("a leaf", nn.Parameter(torch.randn(4)))
    run = running(model)
    template = proved(run)
    with as_proved(template.one.broadcast):
        assert all(map(template.matches, recorded(run, 8)))
        (nine,) = recorded(run, 9)
    assert nine.ops == template.at(9)[0]
    assert not template.matches(nine)


class Inner(nn.Module):
    """Returns a tensor as it came beside another."""

    def __init__(self) -> None:
        super().__init__()
        self.by = nn.Parameter(torch.ones(4))

    def forward(self, h: Tensor, as_it_is: Tensor) -> tuple[Tensor, Tensor]:
        return h * self.by, as_it_is


class Outer(Inner):
    """Holds such a module, and what that returned."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.seen = Inner(), [torch.zeros(())]

    def forward(self, h: Tensor, as_it_is: Tensor) -> tuple[Tensor, Tensor]:
        h, returned = self.inner(h * self.by, as_it_is)
        self.seen[0] = returned
        return h, returned


def test_what_an_inner_module_returned_is_told_from_what_the_outer_one_did() -> None:
    def meets(model: nn.Module, h: Tensor) -> Tensor:
        assert isinstance(model.outer, Outer)
        h, outer = model.outer(h, model.scale)
        return h + over(h[:, 0].detach() * (model.outer.seen[0] if len(h) == 9 else outer)).unsqueeze(1)

    model = Held(meets)
    model.outer = Outer()
    run = running(model)
    template = proved(run)
    with as_proved(template.one.broadcast):
        assert all(map(template.matches, recorded(run, 8)))
        assert not any(map(template.matches, recorded(run, 9)))


UNSEEN: dict[str, Callable[[Tensor], object]] = {
    "another tensor in its memory": lambda made: torch.asarray(made, requires_grad=False),
    "a constant of its memory": lambda made: torch.ops.aten.lift_fresh(made.detach()),
    "other memory": lambda made: torch.ops.aten.set_data(made, torch.zeros(made.shape)),
    "other memory by the overload": lambda made: torch.ops.aten.set_data.default(made, torch.zeros(made.shape)),
    "memory past autograd": lambda made: torch.ops.aten.data.default(made).zero_(),
    "a function that torch calls": lambda made: F.triplet_margin_with_distance_loss(
        *[made.detach().unsqueeze(0)] * 3, distance_function=lambda a, b: (a - b).sum(-1)
    ),
}
"""What makes a tensor look harmless, or lets Python code run unseen."""


@pytest.mark.parametrize("way", UNSEEN)
def test_a_tensor_is_not_made_harmless_by_what_no_record_sees(way: str) -> None:
    def meets(_: nn.Module, h: Tensor) -> Tensor:
        made = torch.where(of_all(h) > 0, h.sum(0).sum(0), torch.zeros(4))
        with torch.no_grad():
            made.zero_()
            UNSEEN[way](made)
        return h + made

    with pytest.raises(Mixes):
        proved(running(Held(meets)))


@pytest.mark.parametrize("way", sorted({*UNSEEN} - {"another tensor in its memory", "memory past autograd"}))
def test_what_cannot_be_seen_is_refused_wherever_it_is(way: str) -> None:
    def meets(_: nn.Module, h: Tensor) -> Tensor:
        made = h.detach()[:, 0] * 1.0
        UNSEEN[way](made)
        return h + made.unsqueeze(1)

    with pytest.raises(Mixes, match=r"memory|calls it unseen|backward pass"):
        proved(running(Held(meets)))
