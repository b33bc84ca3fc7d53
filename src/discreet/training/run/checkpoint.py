"""Checkpoints: what a run has released so far, so that an interrupted run can go on.

Everything in a checkpoint is post-processing of releases. What was spent is in the ledger instead, and so is the place
at which a run goes on: after all charged steps, taken or not. No checkpoint, old or new, lowers what was charged, nor
lets a charged step be taken again, nor gives noise for it a second time: each start of a run has a key of its own.

**The order.** A block of steps is charged, durably, before anything is drawn for it; its releases follow; then comes a
checkpoint. Every process that has a part of the state writes it to a file with a new name, durably, and tells the
first its size and SHA-256. When the first has all of them, and sees all files, it puts the index that names them in the
place of the last one, durably. Then it removes the files that the last one named.

**Two starts at a time.** Who resumes a run that still goes on ends it, at its next charge; until then both may write
checkpoints. The first does not put its index in the place of one of the second, which has the number of its start.
Names of parts and drafts are never the same, and what the index names is removed by nobody but by who has put another
one in its place. What no index names is removed by a start that has the folder for itself (`opening`).

**Killed anywhere,** one process or all, or the power cut:

- before the index is in its place, the last checkpoint is as it was: no file of it was written to. The new files are
  named by no index, and go with the next start.
- when it is in its place, all that it names is on the disk, as each process has forced its file before it spoke.
- the rename may be undone by a power cut until it was forced. No file of the last checkpoint is removed before.
- so a checkpoint is the last one or the one before, whole. Its steps were charged before it was begun: one that is
  ahead of the ledger shows that the ledger is an older copy, and ends the resumption (`opening.resumed`).

**Resumed.** The first process reads the index and checks every file: before any row is read, and again before the
attempt is noted in the ledger. What it finds wrong is an error in all. Then it reads one tensor after the other and
tells it to the others, of which each keeps what it needs. So any number of processes goes on.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler

from discreet.core.errors import DiscreetError, InputError, PrivacyViolation
from discreet.distributed.ranks import Ranks
from discreet.training.run.checkpoint_files import Index, open_newest, part_name, write_index, write_part
from discreet.training.run.checkpoint_parts import Part
from discreet.training.run.state_json import NamedTensor, Shard, Way, decoded, encoded
from discreet.training.run.trained import Bought, Evaluation


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state after `position` charged steps.

    `bought`: private metrics so far. `progress`: that of an adaptive run. `best`: the best released model by public or
    private metrics, if the run keeps it. `clipping`: the state of the clip rule. `average`: the average of the released
    models, if the run takes one. `rule`: what tells the optimizer from one with other rules (`saved_state.rule_of`).
    """

    run: str
    position: int
    model: dict[str, Any]
    optimizer: dict[str, Any]
    scheduler: dict[str, Any] | None
    evaluations: tuple[Evaluation, ...]
    progress: dict[str, Any] | None = None
    best: dict[str, Any] | None = None
    clipping: dict[str, Any] | None = None
    bought: tuple[Bought, ...] = ()
    average: dict[str, Any] | None = None
    rule: list[Any] | None = None

    def restore(
        self, model: nn.Module, load_optimizer: Callable[[dict[str, Any]], None], scheduler: LRScheduler | None
    ) -> None:
        """Put the state back. The optimizer's settings come from the checkpoint too."""
        with fitting():
            model.load_state_dict(self.model)
            load_optimizer(self.optimizer)
            if scheduler is not None and self.scheduler is not None:
                scheduler.load_state_dict(self.scheduler)

    def as_dict(self) -> dict[str, Any]:
        """The state in plain values and tensors."""
        return {
            "model": self.model,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "evaluations": [[one.step, dict(one.metrics)] for one in self.evaluations],
            "progress": self.progress,
            "best": self.best,
            "clipping": self.clipping,
            "bought": [asdict(one) for one in self.bought],
            "average": self.average,
            "rule": self.rule,
        }

    @classmethod
    def of(cls, run: str, position: int, state: dict[str, Any]) -> Checkpoint:
        """The checkpoint whose `as_dict` is `state`."""
        evaluations = tuple(Evaluation(step, metrics) for step, metrics in state.pop("evaluations"))
        bought = tuple(Bought(**one) for one in state.pop("bought"))
        return cls(run, position, evaluations=evaluations, bought=bought, **state)


@contextmanager
def fitting() -> Iterator[None]:
    """Say that a checkpoint does not fit where a state cannot be loaded."""
    try:
        yield
    except (RuntimeError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"the checkpoint does not fit this model or optimizer: {reason:.200}") from None


def save_checkpoint(
    path: Path, make: Callable[[], Checkpoint], ranks: Ranks, attempt: int = 0, *, shared_out: bool
) -> None:
    """Put the checkpoint that `make` gives in the place of that whose index is at `path`: a crash leaves one of the
    two, whole. That of a later start than `attempt` stays. A conversation of all processes, of which the first alone
    writes unless the state is `shared_out`."""

    def write() -> tuple[Written | None, str]:
        if not (ranks.first or shared_out):
            return None, ""
        checkpoint = make()
        tree, tensors = encoded(checkpoint.as_dict())
        own = {name: one for name, one in tensors.items() if ranks.first or isinstance(one, Shard)}
        part = write_part(path.with_name(part_name(checkpoint.position, token, ranks.rank)), own)
        return Written(checkpoint, tree, part), _digest(checkpoint) if shared_out else ""

    token = ranks.from_first("a checkpoint", lambda: secrets.token_hex(4))
    written, digest = ranks.together("a part of a checkpoint", write)
    told = ranks.all_facts("the parts of a checkpoint", None if written is None else [asdict(written.part), digest])
    parts = tuple(Part(**one[0]) for one in told if one is not None)

    def finish() -> None:
        assert written is not None  # by the first process
        if any(one is not None and one[1] != digest for one in told):
            raise PrivacyViolation(
                "the processes of the run have states of different shapes; no checkpoint was written"
            )
        own = written.checkpoint
        write_index(Index(path, own.run, own.position, parts, written.tree, attempt))

    ranks.from_first("the index of a checkpoint", finish)


def read_checkpoint(
    index: Index | None,
    ranks: Ranks,
    keep: Callable[[Way, Tensor], Tensor],
    check: Callable[[Index], None] | None = None,
) -> Checkpoint | None:
    """The checkpoint of the `index` that the first process has, in all of them; None if it has none. `keep` says what a
    process keeps of each tensor. `check` refuses an index that does not belong to the run: another start may have put
    a later one in its place meanwhile. A conversation of all processes."""
    with ExitStack() as stack:
        opened: list[Callable[[str], Tensor]] = []

        def begin() -> list[Any] | None:
            if index is None:
                return None
            newest, numbers = stack.enter_context(open_newest(index))
            if check is not None:
                check(newest)
            opened.append(numbers)
            return [newest.run, newest.position, newest.state]

        told = ranks.from_first("the checkpoint", begin)
        if told is None:
            return None
        run, position, tree = told

        def take(way: Way, one: NamedTensor) -> Tensor:
            found = opened[0](one.name).to(one.kept_type) if opened else None
            return keep(way, one.of(_in_all(found, one.kept_type, ranks)))

        try:
            return Checkpoint.of(run, position, decoded(tree, take))
        except DiscreetError:
            raise
        except (ValueError, LookupError, TypeError, AttributeError, StopIteration, RecursionError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"the state in the checkpoint is not one that a run has written ({reason:.200})") from None


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """A checkpoint of which this process has written its part, and its state as JSON."""

    checkpoint: Checkpoint
    tree: Any
    part: Part


def _in_all(numbers: Tensor | None, dtype: torch.dtype, ranks: Ranks) -> Tensor:
    """The numbers that the first process has, in all of them."""
    if ranks.size == 1:
        assert numbers is not None
        return numbers
    content = ranks.bytes_from_first(None if numbers is None else numbers.view(torch.uint8).numpy().tobytes())
    return torch.frombuffer(bytearray(content), dtype=dtype) if content else torch.empty(0, dtype=dtype)


def _digest(checkpoint: Checkpoint) -> str:
    """A digest of names, shapes and settings of what is shared out, which are the same in all processes."""
    tree, _ = encoded([checkpoint.model, checkpoint.optimizer])
    return hashlib.sha256(json.dumps(tree).encode()).hexdigest()
