"""A run whose weights are shared out from its first step to its result: `Training(shard="fully")`.

Every process builds the model whole, in the memory of its host, and it is checked so, like any model. Then each keeps
its part of every parameter, of what the optimizer remembers and of sums and noise; layers are whole while they run
(`distributed.gathered_layers`). For the result the parts are put together again.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from discreet.clipping import Criterion
from discreet.clipping.capture.owners import owners_of
from discreet.clipping.separation.recording.program import Template
from discreet.clipping.separation.watched import NOT_OF_A_ROW
from discreet.core.errors import DiscreetError, InputError, UnsupportedModel
from discreet.distributed.lockstep import Lockstep
from discreet.distributed.team import Team
from discreet.distributed.weight_shards import WeightShards
from discreet.plan import AdaptivePlan, Plan
from discreet.training.checklist import Checked
from discreet.training.guard import Guard
from discreet.training.preflight.engine_options import AUTO, EngineOptions
from discreet.training.public.public_data import PublicData
from discreet.training.run.checkpoint import fitting
from discreet.training.run.run_folder import RunFolder
from discreet.training.run.state_json import Shard, Way
from discreet.training.sharded.optimizer_shards import OptimizerShards, check_number_by_number, own_state
from discreet.training.sharded.sharded_engine import InStep, ShardedProbe, refuse_unproved, sharded_engine
from discreet.training.step import Run

_ENGINES = ("bookkeeping", "ghost")


def shardable(
    team: Team,
    options: EngineOptions,
    plan: Plan | AdaptivePlan,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    public: PublicData,
    averaging: object,
) -> EngineOptions:
    """The options of a run, as they are unless it is sharded. `InputError` or `UnsupportedModel` in all processes for
    what does not go with weights that are shared out."""
    if not team.sharded:
        return options

    def check() -> None:
        if options.name not in (AUTO, *_ENGINES):
            raise InputError(
                f'the engine {options.name!r} needs all weights at once; with shard="fully" take the engine "auto" '
                f'(--set engine=auto), or use "replicate"'
            )
        what = None
        if plan.clipping.FOLLOWS or plan.clipping.BOX or plan.clipping.geometry is not None:
            what = f"clipping {plan.clipping.kind!r} keeps a state of all parameters or of every step"
        elif len(plan.sampling.strategy) > 1:
            what = "correlated noise keeps the sums of earlier steps"
        elif plan.metrics:
            what = "private metrics are computed by the whole model"
        elif public.beside is not None:
            what = "a gradient of public rows is computed by the whole model"
        elif averaging is not None:
            what = "an average of iterates is a second model"
        if what is not None:
            raise InputError(f'{what}, which a run with shard="fully" does not have; leave it out, or use "replicate"')
        check_number_by_number(optimizer)

    team.together("what goes with weights that are shared out", check)
    return replace(options, name=_ENGINES[0] if options.name == AUTO else options.name, features_once=False)


class ShardedRun:
    """The weights and the optimizer of a run, shared out."""

    def __init__(
        self, team: Team, model: nn.Module, optimizer: torch.optim.Optimizer, proved: Sequence[Template]
    ) -> None:
        """`proved`: the programs of the model. `UnsupportedModel` in all processes for a model that is sharded, if a
        class has to run again with the weights of modules inside."""
        if team.sharded:
            team.together("what can be shared out", lambda: _refuse_open(model, proved))
        self._team, self._model = team, model
        self._optimizer = optimizer
        self._shards: WeightShards | None = None
        self._loaded: dict[str, Any] | None = None

    def begin(
        self,
        run: Run,
        checked: Checked,
        options: EngineOptions,
        criterion: Criterion,
    ) -> tuple[Run, Checked]:
        """Agree on how sums travel, and share out the weights; return the run with what works on shares, and what was
        checked without the copies of the model. A random unit must have the same clipped gradient as before;
        `UnsupportedModel` in all processes if not. Both as they are unless the run is sharded."""
        team, unit = self._team, checked.unit
        team.carry(run.parameters)
        if not team.sharded:
            return run, checked
        wanted = team.together("a try of a random unit", run.probe.repeat)
        if wanted is None or unit is None:
            raise InputError('model or loss cannot take random rows, on which shard="fully" has to be tried')
        team.agree("order of weights in the model or the optimizer", *self._order())
        shards = self._shards = WeightShards(self._model, team.ranks)
        self._cut = OptimizerShards(self._optimizer, self._model, shards, team.ranks.rank)
        team.together("the state of the optimizer", self._load)
        lockstep = self._lockstep = team.lockstep = Lockstep(shards, team)
        team.optimizer_digest = self._settings
        engine, plain, check = sharded_engine(checked.preflight, options, lockstep, unit)
        once = InStep(options.engine(_ENGINES[0]).clipped_sum, lockstep)  # one pass
        tried = checked.preflight, self._model, criterion, unit
        first, probe = ShardedProbe(once, *tried), ShardedProbe(plain, *tried)
        team.in_step(lambda: lockstep.note(lambda: _tried(first)))
        found = team.in_step(probe.repeat)
        team.together("the gradient of a random unit", lambda: _refuse_far(wanted, found, engine.error))
        team.in_step(lambda: refuse_unproved(engine, check, self._model, criterion, unit))
        run = replace(
            run,
            parameters={name: shards.pieces[name] for name in shards.shapes},
            engine=engine,
            guard=Guard(self._model, *checked.declared, pieces=shards.pieces),
            probe=probe,
        )
        return run, replace(checked, preflight=replace(checked.preflight, engine=engine, plain=None))

    def check_folder(self, folder: RunFolder) -> None:
        """`InputError` in all processes of a run that is sharded, unless all see its folder."""
        if not self._team.sharded:
            return
        names = self._team.ranks.all_facts("a look at the run folder", folder.run)
        unseen = next((rank for rank, one in enumerate(names) if one != names[0]), None)
        if unseen is not None:
            raise InputError(
                f"process {unseen} does not see the run folder {folder.path}, in which each process keeps its part of "
                'the checkpoints with shard="fully"; name one that all of them see. Nothing was charged'
            )

    def kept(self, way: Way, whole: Tensor) -> Tensor:
        """The part of a checkpoint's tensor that this process keeps."""
        if not self._team.sharded or way[:2] != ("optimizer", "state"):
            return whole
        ranks = self._team.ranks
        return own_state(self._optimizer, int(str(way[2])), str(way[3]), whole, ranks.rank, ranks.size)

    def load_optimizer(self, state: dict[str, Any]) -> None:
        """Let the optimizer go on from the state of a checkpoint: now, or when it is shared out. `ValueError` if it has
        other groups of parameters."""
        if not self._team.sharded:
            self._optimizer.load_state_dict(state)
            return
        groups = state["param_groups"], self._optimizer.param_groups
        if len({tuple(len(group["params"]) for group in one) for one in groups}) > 1:
            raise ValueError("its optimizer has other groups of parameters")
        self._loaded = state

    def state(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The state dictionaries of model and optimizer, with what this process has of each tensor; None before the
        weights were shared out."""
        shards = self._shards
        if shards is None:
            return None
        state, names = self._model.state_dict(), self._names()
        own = {name: Shard(part, shards.cuts[name].shape) for name, part in shards.own.items()}
        model = OrderedDict((key, own[names[key]] if key in names else one) for key, one in state.items())
        return model, self._cut.state_dict()

    @contextmanager
    def whole(self) -> Iterator[None]:
        """The weights put together in the first process, for as long as the context lasts. A conversation of all."""
        shards, before = self._shards, list[tuple[nn.Parameter, Tensor]]()
        for name, parameter in () if shards is None else self._model.named_parameters():
            assert shards is not None
            found = shards.whole({name: shards.own[name]})[name]
            if self._team.first:
                before.append((parameter, parameter.data))
                parameter.data = found
        try:
            yield
        finally:
            for parameter, absent in before:
                parameter.data = absent

    def end(self) -> None:
        """Put the weights together again, in every process. No step can be taken after it."""
        if self._shards is None:
            return
        for name, parameter in self._model.named_parameters():
            parameter.data = self._shards.whole({name: self._shards.own[name]})[name]
        self._cut.put_back()
        self._lockstep.close()
        self._shards = None

    def _load(self) -> None:
        if self._loaded is not None:
            with fitting():
                self._cut.load_state_dict(self._loaded)
            self._loaded = None

    def _names(self) -> dict[str, str]:
        """The name under which each parameter is shared out, by all of its names."""
        first = {id(one): name for name, one in self._model.named_parameters()}
        return {name: first[id(one)] for name, one in self._model.named_parameters(remove_duplicate=False)}

    def _order(self) -> list[str]:
        """The names of all parameters, in the order of the model and then of the optimizer."""
        named = {id(one): name for name, one in self._model.named_parameters()}
        given = [one for group in self._optimizer.param_groups for one in group["params"]]
        return [*named.values(), *(named.get(id(one), "") for one in given)]

    def _settings(self) -> str:
        return hashlib.sha256(json.dumps(self._cut.settings()).encode()).hexdigest()


def _refuse_open(model: nn.Module, proved: Sequence[Template]) -> None:
    again = {one.module for program in proved for one in program.one.inside}
    for owner in owners_of(model):
        if owner.open and owner.name in again:
            raise UnsupportedModel(
                f"{owner.described} holds trained parameters beside other modules, and has to run again for them, as "
                "it does not just add them to the examples or multiply these by them, or does so under a "
                'checkpoint; with shard="fully" put them into a module of their own, or train with shard="replicate"'
            )


def _tried(probe: ShardedProbe) -> None:
    """A pass over a random unit, which could be computed with all weights at hand."""
    try:
        probe.repeat()
    except (*NOT_OF_A_ROW, DiscreetError):
        raise
    except Exception:
        raise UnsupportedModel(
            "a random row cannot be computed when weights are gathered layer by layer: a module returns a part of its "
            "frozen weights as it is (let it return a copy, .clone()), or uses weights of another one, or outside of "
            'forward; train with shard="replicate"'
        ) from None


def _refuse_far(wanted: Mapping[str, Tensor], found: Mapping[str, Tensor] | None, error: float | None) -> None:
    squares = sum(float((wanted[name].double() - (found or {})[name].double()).square().sum()) for name in wanted)
    if not squares**0.5 <= 2 * (error or 0.0):
        raise UnsupportedModel(
            "a random row has another gradient when weights are gathered layer by layer: a module uses weights of "
            'another one, or outside of forward; train with shard="replicate"'
        )
