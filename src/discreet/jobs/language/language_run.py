"""`discreet train TEXTS --model FOLDER`: a language model on a column of texts, to a published folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from discreet.certificate.described import About, Exposed, OfTexts
from discreet.certificate.model_spec import of_module
from discreet.core import checks
from discreet.core.adjacency import Unit
from discreet.core.disk import check_target
from discreet.core.errors import InputError
from discreet.core.guarantee import Guarantee
from discreet.core.imports.extras import extra
from discreet.core.processes import refuse_several_processes
from discreet.jobs.baseline import with_baseline
from discreet.jobs.language import begun_options, canary_texts
from discreet.jobs.language.base_folder import (
    check_looks_back,
    checked_folder,
    load_for,
    most_tokens,
    note_private_runs,
)
from discreet.jobs.language.begun_options import LanguageCommandLine
from discreet.jobs.language.language_facts import Budget, LanguageFacts, Settings
from discreet.jobs.language.private_texts import read_rows, tokens_of_rows
from discreet.jobs.run_folders import begun_folder, named, run_folder
from discreet.jobs.runs_beside import runs_beside
from discreet.jobs.said_again import resumable
from discreet.jobs.tables.table_facts import TableFacts
from discreet.jobs.tables.table_source import TableSource
from discreet.language import (
    TASKS,
    Canaries,
    Task,
    TransformersModel,
    TransformersRows,
    exposures,
    task_named,
    weights_digest,
)
from discreet.plan import Plan
from discreet.plan.suggest import suggest
from discreet.publication import publish
from discreet.publication.publishing import finish_publishing
from discreet.training import EngineOptions, PublicData, RunOptions, Trained, Training
from discreet.training.run.opening import check_room
from discreet.training.run.run_folder import RunFolder

_TASKS = ("causal-lm", "classification")
_LENGTH = 128


@dataclass(frozen=True, slots=True, eq=False)
class LanguageJob:
    """A file of texts, a model, and the folder to publish to. `begun`: the folder of a run to go on with. `published`:
    nothing is left to do."""

    path: Path
    facts: LanguageFacts
    table: TableFacts
    budget: Budget
    settings: Settings
    target: Path
    about: About
    begun: Path | None = None
    published: bool = False

    @classmethod
    def of(cls, said: LanguageCommandLine) -> LanguageJob:
        """A job from the options of the command line; what is wrong with them is said before anything is read."""
        facts, table, budget = said.facts, said.table, said.budget
        if said.path is None or table.text is None:
            raise InputError("--model fine-tunes on texts: discreet train FILE --text COLUMN --model FOLDER")
        if facts.model is None:
            raise InputError(f"{facts.given[0]} is for a language model; name its folder: --model FOLDER")
        check_used(table)
        if facts.task is not None and facts.task not in _TASKS:
            other = f"; for {facts.task} use discreet.language" if facts.task in TASKS else f", and no {facts.task!r}"
            raise InputError(f"this command trains {' and '.join(_TASKS)}{other}")
        task = task_named(facts.task or "causal-lm")
        if facts.canaries is None and facts.canary is not None:
            raise InputError("--canary says what canaries are like, and --canaries how many; give both")
        if facts.canaries is not None and not task.shifted:
            raise InputError("--canaries are texts that a causal model continues; leave them out, or --task")
        if (task.name == "classification") != (table.target is not None):
            raise InputError("classification needs --target COLUMN, and causal-lm has none")
        if table.unit is None:
            raise InputError("say whose a row is: --unit COLUMN, or --unit row if everybody has one row")
        if budget.epsilon is None or budget.population is None:
            raise InputError("declare --epsilon and --population, what may be given away and of how many people")
        population = checks.positive("--population", budget.population)
        checks.check_delta(population, budget.delta)
        budget = replace(budget, delta=budget.delta or checks.default_delta(population))
        target = named(said.out or Path(f"{said.path.stem}-private"))
        check_target(target)
        return cls(said.path, replace(facts, task=task.name), table, budget, said.settings, target, said.about)

    @classmethod
    def resumed(cls, folder: Path, said: LanguageCommandLine, settings: Sequence[str]) -> LanguageJob:
        """The job whose run is in `folder`, or beside it; options that are `said` again must be those of the run.

        If it is published and only its key was left to be destroyed, that is done now, and nothing is left to run.
        """
        check_used(said.table)
        folder = begun_folder(folder, begun_options.FILE)
        old = begun_options.begun(folder, said.given(settings))
        assert old.path is not None
        assert old.out is not None
        made = cls(old.path, old.facts, old.table, old.budget, old.settings, old.out, old.about, begun=folder)
        kept = RunFolder(folder)
        if finish_publishing(kept.run, kept.secrets, made.target):
            return replace(made, published=True)
        check_target(made.target)
        return made

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.begun or run_folder(self.target)

    @property
    def task(self) -> Task:
        """The task that the model is trained for."""
        return task_named(self.facts.task or "causal-lm")

    def beside(self, ledger: str | None) -> list[str]:
        """A line if the same file was trained on before and no ledger adds the runs up."""
        return [] if self.begun or ledger is not None else runs_beside(self.path, self.folder)

    def plan(self) -> Plan:
        """The plan, from what was declared alone. Canaries are counted beside the declared population."""
        epsilon, delta, population = (float(one or 0) for one in astuple(self.budget))
        population += self.facts.canaries or 0  # units like all others: drawn, clipped and counted
        settings, by_row = self.settings, self.table.unit == "row"
        if not by_row and settings.rows_per_unit is None:
            raise InputError("say how many texts of a person a step uses at most: --set rows_per_unit=5")
        steps, batch = settings.steps, settings.batch
        if steps is None or batch is None:
            found = suggest(population, epsilon, delta, most_epochs=10, poisson=True).plan
            steps, batch = steps or found.steps, batch or found.sampling.expected_batch(population)
        return Plan.poisson(
            population=population,
            batch=batch,
            steps=steps,
            clip_norm=settings.clip_norm,
            delta=delta,
            unit=Unit.EXAMPLE if by_row else Unit.USER,
            rows_per_unit=1 if by_row else settings.rows_per_unit,
        ).calibrate(epsilon=epsilon)

    def run(self, *, ledger: str | None, dataset_id: str) -> tuple[Guarantee, Trained, OfTexts]:
        """Train and publish; return the guarantee with the run, and what is said of its texts."""
        refuse_several_processes(shared=False)  # this and the next before anything is read
        plan = self.plan()
        if self.begun is None:
            RunFolder(self.folder).check_new()
            check_room(ledger, dataset_id, lambda: plan)
        source = TableSource(self.path, self.table.test)
        source.check()
        source.check_copies()
        classes = self._classes()
        if self.begun is not None:
            begun_options.check_classes(self.folder, classes)
        private = read_rows(self.path, [*self._columns(), *([] if self.table.unit == "row" else [self._unit()])])
        tokenizer, model = self._loaded(classes)
        wrapped = TransformersModel(model, self.task)
        note_private_runs(self._source(), wrapped)
        padding = getattr(model.config, "pad_token_id", None) or 0
        length = self._length(most_tokens(tokenizer, model))
        encoded = partial(self._rows, tokenizer=tokenizer, classes=classes, padding=padding, length=length)
        canaries = self._canaries(model, encoded)
        rows = encoded([*private, *self._as_rows(() if canaries is None else canaries.inserted)], self.path)
        test = None
        if self.table.test is not None:
            test = encoded(read_rows(self.table.test, self._columns()), self.table.test).tensors()
        trained_ones = [one for one in wrapped.parameters() if one.requires_grad]
        training = Training(
            plan,
            wrapped,
            self.task.loss(reduction=self.settings.reduction),  # type: ignore[arg-type]  # it refuses others
            torch.optim.AdamW(trained_ones, lr=self.settings.learning_rate, weight_decay=0.0),
            rows,
            units=self._units(private),
            public=PublicData(test=test, canaries=None if canaries is None else canaries.declared),
            run=RunOptions(
                self.folder,
                resume=self.begun is not None,
                ledger=ledger,
                dataset_id=dataset_id,
                on_open=lambda: begun_options.keep(self.folder, self._command_line().options(), classes),
            ),
            engine=EngineOptions(self.settings.engine),
        )
        with resumable(self.folder, finish=False):
            trained = with_baseline(training.run(), None if self.task.shifted else test)
        texts = self._described(trained, canaries, encoded, length)
        return self._published(trained, texts), trained, texts

    def _command_line(self) -> LanguageCommandLine:
        """All that was said of the run, completed by what was left out."""
        facts = self.facts, self.table, self.budget, self.settings
        return LanguageCommandLine(self.path, *facts, self.target, self.about)

    def _canaries(self, model: Any, encoded: Callable[..., TransformersRows]) -> Canaries | None:
        """The made-up texts to put among the rows, by the weights that training starts from; None if there are none."""
        if self.facts.canaries is None:
            return None
        made = canary_texts.made_up(self.facts.canary, self.facts.canaries, weights_digest(model))
        canary_texts.check_distinct(made, lambda texts: encoded(self._as_rows(texts)).tensors())
        return made

    def _as_rows(self, texts: Sequence[str]) -> list[dict[str, Any]]:
        return [{str(self.table.text): text} for text in texts]

    def _units(self, private: Sequence[dict[str, Any]]) -> list[Any] | None:
        """Whose each row is; None if everybody has one."""
        if self.table.unit == "row":
            return None
        units = [row[self._unit()] for row in private]
        return units if self.facts.canaries is None else canary_texts.with_own_units(units, self.facts.canaries)

    def _described(
        self, trained: Trained, canaries: Canaries | None, encoded: Callable[..., TransformersRows], length: int
    ) -> OfTexts:
        """The section of model.json on texts, with the exposure of each canary in the released model."""
        found: tuple[Exposed, ...] = ()
        if canaries is not None:
            model: Any = trained.model
            found = exposures(model, canaries, lambda texts: encoded(self._as_rows(texts)).tensors())
        return OfTexts(
            task=self.task.name,
            text=self.table.text,
            target=self.table.target,
            classes=tuple(self._classes()),
            length=length,
            canaries=found,
        )

    def _published(self, trained: Trained, texts: OfTexts) -> Guarantee:
        spec = replace(of_module(trained.model), about=self.about, language=texts)
        if self.facts.lora is None:
            return publish(trained, self.target, spec)
        from discreet.integrations.adapter_publishing import publish_adapters

        return publish_adapters(trained, self.target, base=self._source().name.replace(" ", "-"), spec=spec)

    def _source(self) -> Path:
        return checked_folder(self.facts.model or Path())

    def _loaded(self, classes: Sequence[str]) -> tuple[Any, Any]:
        """The tokenizer, and the model with what will be trained of it. New weights are drawn from a public seed."""
        tokenizer, model = load_for(self._source(), self.task, classes, "--model")
        if self.task.shifted:
            check_looks_back(self._source(), model)
        if self.facts.lora is None and getattr(model, "is_quantized", False):
            raise InputError(f"the weights of {self._source()} are quantised, and stay as they are; add --lora 8")
        if self.facts.lora is None:
            model = model.float()  # in half precision most steps would be rounded away
        if self.facts.lora is not None:
            with torch.random.fork_rng():
                torch.manual_seed(0)
                peft = extra("peft", "hf", "--lora")
                wanted = {"r": self.facts.lora, "lora_alpha": 2 * self.facts.lora, "target_modules": "all-linear"}
                model = peft.get_peft_model(model, peft.LoraConfig(task_type=self.task.peft, **wanted))
        return tokenizer, model

    def _length(self, most: int | None) -> int:
        """The tokens of a row, of which the model reads `most`."""
        wanted = self.facts.length
        if most is not None and wanted is not None and wanted > most:
            raise InputError(f"--length {wanted} is more than the {most} tokens that the model reads; give less")
        return wanted or min(_LENGTH, most or _LENGTH)

    def _columns(self) -> list[str]:
        return [str(self.table.text), *([] if self.table.target is None else [self.table.target])]

    def _unit(self) -> str:
        return str(self.table.unit)

    def _classes(self) -> list[str]:
        """The declared classes: those of --classes, or of the table declared public."""
        if self.table.target is None:
            return []
        if self.table.classes is not None:
            return self.table.class_names
        if self.table.test is None:
            raise InputError("declare the classes: --classes A,B, or --test FILE, which is declared public")
        return sorted({str(row[self.table.target]) for row in read_rows(self.table.test, [self.table.target])})

    def _rows(self, rows: list[dict[str, Any]], path: Path | None = None, **told: Any) -> TransformersRows:
        """Rows of tokens, each made of its own text. `path`: the file that they are of; None of canaries alone. `told`:
        their `tokenizer`, `classes`, `length` and `padding`."""
        padding = told.pop("padding")
        text, target = str(self.table.text), self.table.target
        made = tokens_of_rows(rows, path, text, target=target, ends=self.task.shifted, **told)
        return TransformersRows(made, self.task, length=told["length"], padding=padding)


def check_used(table: TableFacts) -> None:
    """Refuse options of tables that a language model does not have."""
    unused = [one for one in table.given if one not in ("--text", "--target", "--unit", "--test", "--classes")]
    if unused:
        raise InputError(f"{unused[0]} is not for a language model; leave it out")
