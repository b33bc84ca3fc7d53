"""The team of a run: one process, or several that take every step together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from discreet.clipping import Accumulator, Clip, Engine
from discreet.core import checks
from discreet.core.errors import InputError, PrivacyViolation
from discreet.core.events.event_json import to_json
from discreet.core.processes import refuse_several_processes
from discreet.core.release import Receipt
from discreet.distributed.connection.carriers import Messages
from discreet.distributed.lanes import Drawn, Lanes
from discreet.distributed.lockstep import Lockstep
from discreet.distributed.ranks import Ranks, refuse_failures
from discreet.distributed.same_gradient import refuse_other_gradients
from discreet.distributed.sharded_sums import ShardedSums
from discreet.distributed.site_holders import held_once, sites_of
from discreet.distributed.whole_sums import FineGrid, WholeSums, shapes_of

T = TypeVar("T")

_STEP = "the end of a step"

_OPEN = Lock()


class Team:
    """The processes that take the steps of a run together, and the lanes that they share out.

    Without `lanes` the run is one process, which adds floating-point numbers. Otherwise every process has the model,
    the plan and the data; each computes the lanes of its own, and all make the same release. `sharded`: each keeps a
    part of the weights only, while steps are taken. `sites`: at how many sites the data lies, each read by one process
    and a lane of its own; None if all processes have all of it. `optimizer_digest`: of the settings of the optimizer,
    which are compared where weights are shared out.
    """

    def __init__(
        self,
        ranks: Ranks | None = None,
        lanes: int | None = None,
        *,
        sharded: bool = False,
        sites: int | None = None,
    ) -> None:
        self.ranks, self.sharded, self.sites = ranks or Ranks(), sharded, sites
        self.lockstep: Lockstep | None = None
        self.optimizer_digest: Callable[[], str] = str
        self.lanes = None if lanes is None else Lanes(lanes, self.ranks.rank, self.ranks.size)
        self._due = self._told = False

    @classmethod
    def of(cls, shard: str | None, lanes: int | None, data: object = None) -> Team:
        """The team for `Training(data, shard=..., run=RunOptions(lanes=...))`. `InputError` for what there is not."""
        if shard is None:
            if sites_of(data) is not None:
                raise InputError('data at sites is for processes that share a run, or one: give shard="replicate"')
            if lanes is not None:
                raise InputError('lanes are parts of a batch that processes share; give shard="replicate" with them')
            refuse_several_processes()
            return cls()
        if shard not in ("replicate", "fully"):
            raise InputError(
                'shard must be "replicate" (every process has the whole model), "fully" (each keeps a part of it) or '
                f"None, got {shard!r}"
            )
        ranks, sharded = Ranks.joined(), shard == "fully"
        count = held_once(ranks, data, lanes)
        if count is not None:
            return cls(ranks, count, sharded=sharded, sites=count)
        return cls(ranks, ranks.size if lanes is None else checks.count("lanes", lanes), sharded=sharded)

    def keep_lanes(self, record: Mapping[str, Any], given: int | None) -> None:
        """Take the lanes of a run that is resumed, from the `record` of its first attempt (empty if there is none).

        `InputError` if it began without, as its sums are then those of one process, or with others than `given`.
        """
        if not record:
            return
        if record.get("sites") != self.sites:
            at = "that each process has whole" if (sites := record.get("sites")) is None else f"at {sites} sites"
            raise InputError(f"the run began with data {at}; resume it with the same, whatever process holds it")
        began = record.get("lanes")
        if began is None and self.lanes is not None:
            raise InputError("the run began as one process without lanes; resume it so, without shard or --processes")
        if given is not None and given != began:
            raise InputError(f"the run began with {began or 'no'} lanes and keeps them; leave lanes out")
        self.lanes = None if began is None else Lanes(began, self.ranks.rank, self.ranks.size)

    @property
    def first(self) -> bool:
        """Whether this process keeps the ledger, writes files and talks."""
        return self.ranks.first

    @property
    def lane_count(self) -> int | None:
        """The number of lanes; None for a run in one process without lanes."""
        return None if self.lanes is None else self.lanes.count

    def carry(self, parameters: Mapping[str, Tensor]) -> None:
        """Agree on how sums of these parameters travel between processes: by collectives of their device, or not."""
        devices = {one.device for one in parameters.values()}
        self.ranks.carry(devices.pop() if len(devices) == 1 else Messages.device)

    def together(self, purpose: str, do: Callable[[], T]) -> T:
        """`do()` in every process; if it fails in one, it fails in all."""
        return self.ranks.together(purpose, do)

    def on_rows(self, purpose: str, do: Callable[[], T]) -> T:
        """The same for what reads rows: where they lie at sites, other processes are not told the words of an error."""
        return self.ranks.together(purpose, do, words=self.sites is None)

    def told(self, purpose: str, make: Callable[[], Any]) -> Any:
        """The plain values that the first process makes, in all of them."""
        return make() if self.lanes is None else self.ranks.from_first(purpose, make)

    def added(self, purpose: str, number: int) -> int:
        """The sum of what processes have of their own sites; `number` itself where each process has all rows."""
        return number if self.sites is None else sum(self.ranks.all_facts(purpose, number))

    def agree(self, what: str, *facts: object) -> None:
        """`InputError` in all processes unless all were given the same."""
        digest = hashlib.sha256(json.dumps([str(fact) for fact in facts]).encode()).hexdigest()
        told = self.ranks.all_facts(what, digest)
        if len(set(told)) > 1:
            other = next(rank for rank, one in enumerate(told) if one != told[0])
            raise InputError(
                f"process {other} of {len(told)} has another {what} than process 0; give all of them the same. Nothing "
                "was charged"
            )

    def compare(self, answer: Mapping[str, Tensor] | None, error: float | None) -> None:
        """`PrivacyViolation` in all processes unless they have the same gradient of a random unit (`same_gradient`)."""
        if self.ranks.size > 1:
            refuse_other_gradients(self.ranks, answer, error)

    @contextmanager
    def open(self) -> Iterator[None]:
        """A session. `InputError` if several processes have one open already: two at once might mix their sums."""
        if self.ranks.size == 1:
            yield
            return
        if not _OPEN.acquire(blocking=False):
            raise InputError("several processes take one run at a time; leave its session before another is opened")
        try:
            yield
        finally:
            _OPEN.release()

    @contextmanager
    def step(self) -> Iterator[None]:
        """A step: if it fails in this process before the sums are exchanged, it ends in all of them. If it fails later,
        the others may have gone on, so this process leaves them."""
        self._due, self._told = self.ranks.size > 1, False
        try:
            yield
        except BaseException as error:
            if self._due:
                self._due = False
                self.ranks.tell_failure(_STEP, error, words=self.sites is None)
            elif not self._told:
                self.ranks.leave()
            raise
        self._due = False

    def in_step(self, do: Callable[[], T]) -> T:
        """`do()` in every process, which takes passes over a sharded model; if it fails in one, it fails in all."""
        assert self.lockstep is not None
        with self.step():
            found = do()
            self.lockstep.settle()
        return found

    def tried(self, do: Callable[[], T]) -> T:
        """`do()` in every process, which runs the model on public rows."""
        if self.lockstep is None:
            return self.together("the gradient of a random unit", do)
        return self.in_step(do)

    def wanted(self, what: str) -> list[str]:
        """The requests of all processes in a step, by rank; raises the failure of a process that failed."""
        due, self._due = self._due, False
        told = self.ranks.all_facts(_STEP, [None, what])
        self._told = True  # all raise alike
        refuse_failures([one[0] for one in told])
        self._told, self._due = False, due
        return [str(one[1]) for one in told]

    def hold(self, *, within: bool) -> None:
        """Note that the others wait within an exchange of tensors, where they do not hear of a failure; or do no
        longer."""
        self._due = self.ranks.size > 1 and not within

    def sums(
        self,
        parameters: Mapping[str, Tensor],
        engine: Engine,
        clip: Clip,
        largest_batch: int,
        units: int,
    ) -> Accumulator | WholeSums | ShardedSums:
        """The sum of a step whose chunks have at most `units` units."""
        if self.lanes is None:
            return Accumulator(parameters, clip.bit > 0)
        chunks = self.lanes.most_chunks(largest_batch, units)
        if self.lockstep is None:
            return WholeSums(FineGrid.of(shapes_of(parameters, clip), engine, clip, largest_batch, chunks), self.ranks)
        grid = FineGrid.of(self.lockstep.shards.shapes, engine, clip, largest_batch, chunks)
        return ShardedSums(grid, self.ranks, self.lockstep)

    def check_step(
        self,
        receipt: Receipt,
        clip: Clip,
        parameters: Mapping[str, Tensor],
        sums: Accumulator | WholeSums | ShardedSums,
        drawn: Drawn,
        added: int,
        mode: str | None,
    ) -> None:
        """End the step in all processes unless every unit that was `drawn` was added once (`added` of them here), all
        are at the same step with the same weights, scales and `mode` (`training.guard.mode_of`; None where nothing was
        computed), and no sum is unusable. No message depends on a row or on the size of the batch. Where the data lies
        at sites, a process counts for itself, and tells whether it was right."""
        if isinstance(sums, Accumulator):
            return
        sums.settle()
        weights = digest_of(parameters) if self.lockstep is None else self.optimizer_digest()
        step = [receipt.run, receipt.attempt, receipt.position, to_json(receipt.event)]
        scales = None if clip.scales is None else digest_of(clip.scales)
        digest = hashlib.sha256(json.dumps([step, drawn.alike, scales, sums.public]).encode()).hexdigest()
        share = added if self.sites is None else int(added == len(drawn.units))
        unusable = sums.unusable  # may wait for a device, which may fail
        self._due = False
        told = self.ranks.all_facts(_STEP, [None, digest, weights, share, unusable, mode])
        self._told = True  # all come to the same verdict
        refuse_failures([one[0] for one in told])
        nothing = "nothing was released for this step"
        if any(one[1] != digest for one in told):
            raise PrivacyViolation(f"the processes of the run are not at the same step of one plan and draw; {nothing}")
        if len({one[5] for one in told} - {None}) > 1:
            raise PrivacyViolation(
                "the model is in another mode, or has other hooks, another autocast or other threads in one of the "
                f"processes of the run; {nothing}. Let all of them run the same loop"
            )
        if any(one[2] != weights for one in told):
            raise PrivacyViolation(
                f"the processes of the run have different weights; {nothing}. Build model and optimizer in the same "
                "way in all of them, and let nothing but the release change them"
            )
        if sum(one[3] for one in told) != (len(drawn.units) if self.sites is None else self.ranks.size):
            raise PrivacyViolation(
                f"the processes of the run have not added every drawn unit exactly once; {nothing}. Leave sampling and "
                "sharing out to the run: no DistributedSampler, and add every chunk"
            )
        if any(one[4] for one in told):
            raise PrivacyViolation(f"the clipped sum of a chunk is not a number that fits its grid; {nothing}")
        self._told = False

    def asked_to_stop(self, signal: int | None, enough: bool) -> tuple[int | None, bool]:
        """The first signal that a process got, and whether a callback of one ends the run, in all of them, so that all
        stop after the same step."""
        told = self.ranks.all_facts("a look at signals", [signal, enough])
        return next((one[0] for one in told if one[0] is not None), None), any(one[1] for one in told)


def digest_of(parameters: Mapping[str, Tensor]) -> str:
    """A quick digest of values, the same for the same bits on one kind of device: eight bytes at a time, added up, and
    combined by exclusive or (on a graphics card, their squares added up). It finds processes that went different ways;
    it withstands no forger."""
    found: list[object] = []
    there: list[Tensor] = []
    for value in parameters.values():
        content = value.detach().contiguous().reshape(-1).view(torch.uint8)
        content = content.clone() if content.storage_offset() % 8 else content
        whole, rest = content[: len(content) // 8 * 8], content[len(content) // 8 * 8 :]
        if content.device.type == "cpu":
            words = whole.numpy().view(np.uint64)
            found += [int(words.sum()), int(np.bitwise_xor.reduce(words)), rest.numpy().tobytes().hex()]
        else:
            there += _sums_there(whole.view(torch.int64), rest)
    for device in dict.fromkeys(one.device for one in there):  # waits for each once
        found += torch.stack([one for one in there if one.device == device]).tolist()
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()


def _sums_there(words: Tensor, rest: Tensor) -> list[Tensor]:
    """Sums of words and of their squares modulo 2^64, and the sum of the bytes that are left, each in its place."""
    places = torch.arange(len(rest), device=rest.device)
    return [words.sum(), (words * words).sum(), (rest.long() << 8 * places).sum()]
