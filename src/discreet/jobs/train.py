"""The job of `discreet train`, stored in the run folder so that it can be resumed."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from discreet.audit import audit_build
from discreet.certificate.described import About, Measured
from discreet.certificate.model_spec import ModelSpec
from discreet.core.disk import check_target, real_text, refuse_special, write_durably
from discreet.core.errors import InputError
from discreet.core.guarantee import Guarantee
from discreet.core.processes import launched, refuse_several_processes, restarts, world_size
from discreet.data.tables import columns_bought, provisional
from discreet.distributed.connection.process_groups import GROUPS
from discreet.distributed.ranks import Ranks
from discreet.jobs.audits.audit_build import subject_of_recipe
from discreet.jobs.baseline import with_baseline
from discreet.jobs.command_line import CommandLine
from discreet.jobs.defaults_in_words import defaults_in_words
from discreet.jobs.phases import Phases
from discreet.jobs.run_folders import JOB, begun_folder, run_folder
from discreet.jobs.runs_beside import runs_beside
from discreet.jobs.said_again import check_again, resumable
from discreet.jobs.source import Work
from discreet.jobs.tables.table_source import TableSource, recalled
from discreet.plan.pydantic_base import validate
from discreet.prediction import spec_of, spec_of_table
from discreet.publication.publishing import finish_publishing, publish
from discreet.recipes import Recipe
from discreet.recipes.assemble import Run, assemble, carry_out, centered_training, on_device, training_on
from discreet.training import Trained, Training
from discreet.training.run.opening import check_room
from discreet.training.run.run_folder import RunFolder


@dataclass(frozen=True, slots=True)
class Job:
    """A recipe with its data, the folder to publish to, and the folder of the run. `table`: the source of a table's
    rows. `about`: the user's title and note. `published`: nothing is left to do. `measured`: what an audit of the build
    saw before the run, if one was asked for."""

    recipe: Recipe
    data: Path | None
    target: Path
    folder: Path
    resume: bool
    table: TableSource | None = None
    about: About = field(default_factory=About)
    published: bool = False
    measured: Measured | None = None

    @classmethod
    def new(cls, line: CommandLine) -> Job:
        """A job from the options of the command line."""
        work = Work.of(line, queries=line.sites is None and not launched())  # which one process answers
        work.check_columns()
        target = work.target(line)
        return cls(work.recipe, work.data, target, run_folder(target), False, work.table, line.about)

    def again(self) -> Job:
        """This job; or, where torchrun has started all processes again after one was lost, the run that it began. The
        first process looks for it. A run of another job or another call of torchrun is not taken up."""
        begun = restarts() and Ranks.joined().from_first("a run that was begun", self._is_begun)
        return replace(self, resume=True) if begun else self

    def _is_begun(self) -> bool:
        try:
            kept = json.loads((self.folder / JOB).read_text())
        except (OSError, ValueError):
            return False
        if kept != json.loads(json.dumps(self._facts())):
            return False
        check_target(self.target)
        return True

    @classmethod
    def resumed(cls, folder: Path, again: CommandLine | None = None) -> Job:
        """The job whose run is in `folder` (or in the run folder beside the target `folder`); what is said `again` must
        be as it was begun. Of several processes the first looks, and the others are told: they may not see the folder.

        If it is published and only its key was left to be destroyed, that is done now, and nothing is left to run.
        """
        if world_size() == 1:
            return cls._found(folder, again)
        found: list[Job] = []

        def look() -> list[object]:
            found.append(cls._found(folder, again))
            return [found[0]._facts(), str(found[0].folder), found[0].published]

        facts, place, published = Ranks.joined().from_first("a run that is resumed", look)
        return found[0] if found else cls._recalled(facts, Path(place), published=published)

    @classmethod
    def _found(cls, folder: Path, again: CommandLine | None) -> Job:
        refuse_special(folder)
        folder = begun_folder(folder, JOB)
        try:
            job = cls._recalled(json.loads((folder / JOB).read_text()), folder)
        except InputError:
            raise
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError(f"{folder} is not the folder of a run of `discreet train`; name OUT.run") from None
        if again is not None:
            check_again(again, folder, Work(job.recipe, job.data, job.table), job.target, job.about)
        kept = RunFolder(folder)
        published = finish_publishing(kept.run, kept.secrets, job.target)
        if not published:
            if job.target.exists() and kept.identity.exists():
                kept.recall()  # a run that is over says so, before what it published is found in the way
            check_target(job.target)
        return replace(job, published=published)

    @classmethod
    def _recalled(cls, facts: Mapping[str, Any], folder: Path, *, published: bool = False) -> Job:
        """The job of a run in `folder`, from `_facts`."""
        recipe, target = facts["recipe"], Path(facts["target"])
        data = None if facts["data"] is None else Path(facts["data"])
        table = TableSource.remembered(facts.get("table"))
        about = About.model_validate(facts.get("about", {}))
        seen = facts.get("measured")
        measured = None if seen is None else Measured.model_validate(seen)
        checked = validate(Recipe, recipe, str(folder / JOB))
        return cls(checked, data, target, folder, True, table, about, published, measured)

    def audited(self) -> Job:
        """This job, after an audit of its build on made-up rows, which its report will show. `PrivacyViolation` if the
        build does not do what its plan says. A run that is resumed keeps the audit that it began with."""
        if self.resume:
            return self
        RunFolder(self.folder).check_new()  # before it takes a minute
        return replace(self, measured=audit_build(subject_of_recipe(self.recipe, self.data)).measured())

    def run(
        self,
        *,
        ledger: str | None,
        dataset_id: str,
        finish: bool,
        device: str = "cpu",
        lanes: int | None = None,
        shard: str | None = None,
        phases: Phases | None = None,
    ) -> tuple[Guarantee, Trained]:
        """Train (unless `finish`), publish, and return the guarantee with the run. `phases`: where times are noted.

        Under torchrun all processes take the steps together, in so many `lanes`. `shard`: as in `Training`.
        """
        phases, at_sites = phases or Phases(), self.table is not None and self.table.sites is not None
        shard = shard or ("replicate" if launched() or lanes is not None or at_sites else None)
        ranks = Ranks.joined() if shard else Ranks()
        if shard is None:
            refuse_several_processes()  # this and the next before the data is read
        on_device(nn.Module(), device)
        if not self.resume:
            ranks.from_first("a new folder", RunFolder(self.folder).check_new)
            ranks.from_first("room in the budget", lambda: check_room(ledger, dataset_id, self.recipe.plan))
        run = Run(self.folder, self.resume, ledger, dataset_id, self._remember, lanes=lanes, device=device, shard=shard)
        if self.table is not None:
            return self._run_on_table(self.table, run, ranks, phases, finish=finish)
        with phases.phase("read"):
            split = ranks.together("reading the data", lambda: self.recipe.load_data(self.data))
        with phases.phase("prepare"):
            training = assemble(self.recipe, split, run)
        with phases.phase("train"):
            trained = with_baseline(self._carried_out(training, finish=finish), split.test)
        with phases.phase("publish"):
            return publish(trained, self.target, self._spec(spec_of(self.recipe, split, self._today()))), trained

    def beside(self, ledger: str | None) -> list[str]:
        """A line if the same table was trained on before and no ledger adds the runs up."""
        if self.resume or ledger is not None or self.table is None:
            return []
        return runs_beside(self.table.path, self.folder)

    def _run_on_table(
        self, table: TableSource, run: Run, ranks: Ranks, phases: Phases, *, finish: bool
    ) -> tuple[Guarantee, Trained]:
        schema = self.recipe.table
        assert schema is not None
        with ExitStack() as kept:
            with phases.phase("read"):
                run = replace(run, resume=self._buy(table, run) or run.resume)
                rows = table.opened(self.recipe, recalled(schema, self.folder), self.folder)
                ready = ranks.together("reading the data", partial(kept.enter_context, rows), words=table.sites is None)
            with phases.phase("prepare"):
                training = centered_training(self.recipe, ready, run)
            with phases.phase("train"):
                trained, seen = ready.judged(self._carried_out(training, finish=finish))
            with phases.phase("publish"):
                spec = spec_of_table(self.recipe, ready.encoder, self._today(), seen)
                return publish(trained, self.target, self._spec(spec)), trained

    def _buy(self, table: TableSource, run: Run) -> bool:
        """Buy the ranges and categories that a schema does not declare, once the table was checked without them."""
        schema = self.recipe.table
        if schema is None or run.resume or not columns_bought(schema):
            return False
        if self.recipe.adaptive is not None:
            raise InputError("schema: ranges and categories are bought before runs whose plan is fixed; declare them")
        plan = self.recipe.fixed_plan()
        with table.opened(self.recipe, provisional(schema), self.folder) as ready:
            training_on(self.recipe, ready, self.recipe.build_model(), run)
        table.buy(self.recipe, plan, self.recipe.build_model(), run)
        return True

    def _spec(self, spec: ModelSpec) -> ModelSpec:
        return replace(spec, measured=self.measured)

    def _today(self) -> About:
        """The user's words and the date, for publishing."""
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        return self.about.model_copy(update={"date": today, "defaults": defaults_in_words(self.recipe)})

    def _carried_out(self, training: Training, *, finish: bool) -> Trained:
        if not finish:
            with resumable(self.folder, finish=True):
                return carry_out(self.recipe, training)
        with training.session() as session:
            return training.result(session)

    def _remember(self) -> None:
        write_durably(self.folder / JOB, (json.dumps(self._facts(), indent=2) + "\n").encode())

    def _facts(self) -> dict[str, object]:
        """The way to resume the job; and, to know it after a restart, which call of torchrun it is of."""
        return {
            "recipe": self.recipe.model_dump(mode="json"),
            "data": real_text(self.data),
            "target": real_text(self.target),
            "table": None if self.table is None else self.table.as_dict(),
            "about": self.about.model_dump(mode="json"),
            "measured": None if self.measured is None else self.measured.model_dump(mode="json"),
            **({"launch": [os.environ.get("TORCHELASTIC_RUN_ID", ""), GROUPS.call]} if launched() else {}),
        }
