"""`discreet train`: from a recipe, a table or a folder of images to a published folder."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from discreet.cli.loading import by_first_process, in_all_processes, loading, to_terminal
from discreet.cli.options.json_output import echo_json
from discreet.cli.options.language_model import NO_MODEL, with_language
from discreet.cli.options.run import (
    AuditOption,
    DataOption,
    DatasetOption,
    DeltaOption,
    DeviceOption,
    DryRunOption,
    EpsilonOption,
    FinishOption,
    HoldoutOption,
    JsonOption,
    LanesOption,
    LedgerOption,
    NoteOption,
    OutOption,
    PopulationOption,
    ProcessesOption,
    RecipeArgument,
    ResumeOption,
    SettingsOption,
    ShardOption,
    ShowSettingsOption,
    SitesOption,
    TitleOption,
    VerboseOption,
    about_of,
    overrides_of,
)
from discreet.cli.options.table import with_table
from discreet.cli.options.user_ledger import ledger_of
from discreet.cli.show import planned, prices
from discreet.cli.show.messages import spoken
from discreet.core.errors import InputError, typed
from discreet.core.metric_names import (
    BALANCED_ACCURACY,
    BASELINE_ACCURACY,
    BASELINE_BALANCED_ACCURACY,
    CLIPPED,
    amounts_in,
    no_better,
    unit_of,
)
from discreet.core.processes import launched, rank, world_size
from discreet.jobs.command_line import CommandLine
from discreet.jobs.language.begun_options import LanguageCommandLine, is_begun
from discreet.jobs.language.language_facts import Budget, LanguageFacts, Settings
from discreet.jobs.tables.table_facts import NO_TABLE, TableFacts

if TYPE_CHECKING:
    from discreet.core.guarantee import Guarantee
    from discreet.jobs.phases import Phases
    from discreet.jobs.train import Job
    from discreet.training import Trained

_LOADING = "loading PyTorch, then checking plan, rows and engines: nothing is charged before the first step"
_BEGUN_WITH = (
    "--resume goes on with the ledger and the audit that the run was begun with; leave out --dataset-id, --ledger and "
    "--audit"
)
_PUBLISHED = "{}: published before; the key of its noise, which was left, is destroyed now"


@with_language
@with_table
def train(
    context: typer.Context,
    recipe: RecipeArgument = None,
    data: DataOption = None,
    options: TableFacts = NO_TABLE,
    sites: SitesOption = None,
    language: LanguageFacts = NO_MODEL,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    population: PopulationOption = None,
    holdout: HoldoutOption = None,
    dataset_id: DatasetOption = None,
    ledger: LedgerOption = None,
    settings: SettingsOption = None,
    show_settings: ShowSettingsOption = False,
    resume: ResumeOption = None,
    finish: FinishOption = False,
    device: DeviceOption = "cpu",
    processes: ProcessesOption = None,
    lanes: LanesOption = None,
    shard: ShardOption = None,
    out: OutOption = None,
    title: TitleOption = None,
    note: NoteOption = None,
    audit: AuditOption = False,
    dry_run: DryRunOption = False,
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train on private data, publish the model, and hand over a proof of what it gives away."""
    about = about_of(title, note)
    if resume is not None and (dataset_id or audit or _on_command_line(context, "ledger")):
        raise InputError(_BEGUN_WITH)
    shown = show_settings or dry_run
    to_terminal("" if shown or as_json else _LOADING)
    if language.given or (resume is not None and _resumes_texts(resume)):
        others: dict[str, object] = {"data": data, "holdout": holdout, "finish": finish, "show-settings": show_settings}
        others |= {"audit": audit, "dry-run": dry_run, "json": as_json, "device": device != "cpu"}
        _refuse_for_language(others | {"processes": processes, "lanes": lanes, "shard": shard, "sites": sites})
        file, budget = None if recipe is None else Path(recipe), Budget(epsilon, delta, population)
        said = LanguageCommandLine(file, language, options, budget, Settings.of(settings or ()), out, about)
        _fine_tune(said, settings or (), ledger, dataset_id, resume, verbose=verbose)
        return
    overrides = overrides_of(epsilon, delta, population, holdout)
    asked = CommandLine(recipe, data, out, settings or (), overrides, options, about, sites)
    job = _job(asked, resume, finish=finish, shown=shown)
    from discreet.jobs.phases import Phases
    from discreet.jobs.tables.image_or_text_schema import declared

    if _is_shown(job, show_settings=show_settings, dry_run=dry_run, as_json=as_json, audit=audit):
        return
    _leave_to(processes, sites, audit=audit)
    phases, ledger, dataset = Phases(), ledger_of(ledger, dataset_id), dataset_id or ""
    _announce([] if as_json else [*declared(job.recipe), *prices.of_recipe(job.recipe), *job.beside(ledger)])
    with loading():
        import_module("torch._dynamo")  # an optimizer of torch loads it with its first step
    start = partial((_audited(job) if audit else job).run, ledger=ledger, dataset_id=dataset)
    with spoken(verbose=verbose):
        guarantee, trained = start(finish=finish, device=device, lanes=lanes, shard=shard, phases=phases)
    _tell(job, guarantee, trained, phases if as_json else None)


def _on_command_line(context: typer.Context, option: str) -> bool:
    """Whether an option stands on the command line. One of the environment does not: other runs use it too."""
    source = context.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"


def _job(asked: CommandLine, resume: Path | None, *, finish: bool, shown: bool) -> Job:
    """A new job, or the one that is resumed. `shown`: it is not carried out, and a table need not be there."""

    def new() -> Job:
        if not shown:
            from discreet.jobs.tables.first_look import first_look

            first_look(asked)
        with loading():
            from discreet.jobs.train import Job
        return Job.new(asked)

    if resume is None:
        if finish:
            raise InputError("--finish publishes an interrupted run; name it with --resume DIR")
        return new() if shown else in_all_processes(new, words=asked.sites is None).again()
    with loading():
        from discreet.jobs.train import Job
    return Job.resumed(resume, asked)


def _resumes_texts(folder: Path) -> bool:
    """Whether the run to go on with trains a language model; the first of several processes reads its folder."""

    def look() -> bool:
        found = is_begun(folder)
        if found and world_size() > 1:
            raise InputError(
                f"{folder} is a run of a language model, which goes on in one process; start one only (python, not "
                "torchrun). Nothing was charged"
            )
        return found

    return by_first_process("the kind of a run", look)


def _refuse_for_language(others: Mapping[str, object]) -> None:
    """`InputError` for the first of these options that was given: a language model does not have them."""
    given = [name for name, value in others.items() if value]
    if given:
        raise InputError(f"--{given[0]} is not for a language model; leave it out")


def _fine_tune(
    said: LanguageCommandLine,
    settings: Sequence[str],
    ledger: str | None,
    dataset_id: str | None,
    resume: Path | None,
    *,
    verbose: bool,
) -> None:
    """Fine-tune a language model. `settings`: as they were written. `resume`: the folder of a run to go on with."""
    with loading():
        from discreet.jobs.language.canary_texts import summary
        from discreet.jobs.language.language_run import LanguageJob

    job = LanguageJob.of(said) if resume is None else LanguageJob.resumed(resume, said, settings)
    if job.published:
        typer.echo(_PUBLISHED.format(job.target))
        return
    with spoken(verbose=verbose):
        charged = ledger_of(ledger, dataset_id)
        _announce(job.beside(charged))
        guarantee, trained, texts = job.run(ledger=charged, dataset_id=dataset_id or "")
    metrics = trained.last_metrics
    figures = _seen(metrics, {}) or [f"{name} {value:.4f}" for name, value in metrics.items()]
    _tell_result(job.target, guarantee, figures)
    _tell_if_no_better(metrics, "a larger epsilon, more people, or classes that are as frequent as each other")
    for line in summary(texts, guarantee):
        typer.echo(line)


def _is_shown(job: Job, *, show_settings: bool, dry_run: bool, as_json: bool, audit: bool) -> bool:
    """Print what was asked for instead of a run, if anything was; returns whether it was."""
    if job.published or show_settings:
        from discreet.recipes.recipe_files import settings_of

        typer.echo(_PUBLISHED.format(job.target) if job.published else "\n".join(settings_of(job.recipe)))
    elif dry_run:
        _show(job, as_json=as_json, audit=audit)
    return job.published or show_settings or dry_run


def _show(job: Job, *, as_json: bool, audit: bool) -> None:
    """Show the run that would follow."""
    if audit:
        raise InputError("--dry-run carries nothing out; leave out --audit, or give it to the run")
    facts = planned.facts_of(job.recipe, job.table, probe=False)
    echo_json(facts) if as_json else planned.say(job.recipe, facts)


def _audited(job: Job) -> Job:
    _announce(["the build is audited first, on made-up rows: nothing is charged for it"])
    return job.audited()


def _leave_to(processes: int | None, sites: int | None, *, audit: bool) -> None:
    """Run the same command in several processes, if it is not one of them; what is wrong with it was said before."""
    if audit and (processes or launched()):
        raise InputError("--audit is for one process; audit the build before, by `discreet audit build`")
    if processes is None or launched():
        return
    if sites is not None and processes > sites:
        raise InputError(f"--processes {processes}: a process holds one site at least, and there are {sites}")
    with loading():
        from discreet.distributed.launch import launch

    raise typer.Exit(launch(processes, sys.argv[1:]))


def _announce(lines: Sequence[str]) -> None:
    for line in lines if rank() == 0 else []:
        typer.echo(line, err=True)


def _tell(job: Job, guarantee: Guarantee, trained: Trained, phases: Phases | None) -> None:
    """Print the result, in one line or, with the times of its phases, as JSON."""
    metrics = trained.last_metrics
    if phases is not None:
        facts = {"folder": str(job.target), "epsilon": guarantee.epsilon, "delta": guarantee.delta}
        bought = [asdict(one) for one in trained.bought]
        facts |= {"steps": trained.charged_steps, "public_test": dict(metrics), "bought": bought}
        facts["seconds"] = {name: round(taken, 3) for name, taken in phases.seconds.items()}
        echo_json(facts)
        return
    if trained.ended is not None:
        typer.echo(f"the run ended after {trained.charged_steps} steps: {trained.ended}", err=True)
    for line in prices.results(trained.bought):
        typer.echo(line)
    table = job.recipe.table
    figures = _seen(metrics, {} if table is None else {name: table.columns[name].type for name in table.target})
    _tell_result(job.target, guarantee, figures)
    to_terminal(f"read {job.target / 'report.html'}, and check it: discreet verify {typed(job.target)}")
    _announce(prices.unmeasured(job.recipe, job.table))
    balance = "classes that weigh alike (`discreet schema --balance`)"
    _tell_if_no_better(metrics, f"a larger epsilon, more people, fewer columns, or {balance}")


def _tell_result(target: Path, guarantee: Guarantee, figures: Sequence[str]) -> None:
    """Print the line of the result: the folder, what is certified, and what was measured on public rows."""
    seen = f", public test {', '.join(figures)}" if figures else ""
    typer.echo(f"{target}: {prices.certified(guarantee)}{seen}")


def _tell_if_no_better(metrics: Mapping[str, float], helps: str) -> None:
    if no_better(metrics):
        typer.echo(f"the model is no better than one answer for all public rows; {helps} may help", err=True)


def _seen(metrics: Mapping[str, float], targets: Mapping[str, str]) -> list[str]:
    """The public metrics of the result line. `targets`: the kind of each predicted column."""
    found = [f"accuracy {metrics['accuracy']:.1%}"] if "accuracy" in metrics else []
    if BASELINE_ACCURACY in metrics:
        found = [f"{found[0]} (one answer for all rows: {metrics[BASELINE_ACCURACY]:.1%})"]
    if BALANCED_ACCURACY in metrics:
        alike = metrics.get(BASELINE_BALANCED_ACCURACY)
        beside = "" if alike is None else f" (one answer for all rows: {alike:.1%})"
        found.append(f"balanced accuracy {metrics[BALANCED_ACCURACY]:.1%}{beside}")
    amounts = amounts_in(metrics)
    if "rmse" in metrics and not amounts:
        found.append(f"rmse {metrics['rmse']:.4f}")
    for name, error, mean in amounts:
        unit = unit_of(f"{name}rmse", targets)
        cut = f"; {metrics[name + CLIPPED]:,.0f} targets clipped" if f"{name}{CLIPPED}" in metrics else ""
        found.append(f"{name}rmse {error:.4f}{unit} (the mean for all rows: {mean:.4f}{unit}{cut})")
    return found
