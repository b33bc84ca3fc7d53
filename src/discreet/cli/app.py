"""The application: the commands by name, and the exit codes.

| exit code | meaning |
|-----------|---------|
| 0         | done |
| 1         | a check failed (`verify`, `audit`) |
| 2         | bad usage or bad input: one line says what, where and what to do |
| 3         | the budget is exhausted |
| 70        | a defect of discreet itself: `--debug` shows where |
| 130, 143  | interrupted |
| 141       | nobody reads the output any more |
"""

from __future__ import annotations

import gc
import io
import os
import sys
import traceback
import warnings
from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from typing import Annotated

import typer

from discreet._version import __version__
from discreet.cli.options.given_once import GivenOnce
from discreet.cli.show.examples import with_examples
from discreet.core.errors import BudgetExhausted, DiscreetError, Interrupted, VerificationFailed, plain
from discreet.core.imports.extras import needs_whole
from discreet.core.processes import rank

COMMANDS: Mapping[str, tuple[str, str]] = {
    "train": ("train:train", "Train on private data, publish the model, and hand over a proof of what it gives away."),
    "tune": (
        "tune:tune",
        "Search for settings on private data, publish the best run, and prove what the whole search gives away.",
    ),
    "debug": (
        "debug:debug",
        "Show where accuracy is lost: plain, clipped, noisy. Trains on public rows only, and publishes nothing.",
    ),
    "predict": (
        "predict:predict",
        "Predict new rows with a published model, once its files are found to be the certified ones.",
    ),
    "generate": (
        "language.generate:generate",
        "Write texts with a published language model, once it is verified. They give away no more than the model.",
    ),
    "merge": (
        "language.merge:merge",
        "Write one model of published adapters and their base, as transformers loads it, once they are verified.",
    ),
    "export": (
        "export:export",
        "Write a published model, with the preparation of its inputs, as an ONNX file that predicts the same.",
    ),
    "report": (
        "report:report",
        "Write a privacy statement of a published model, by the questions of NIST SP 800-226, once it is verified.",
    ),
    "sign": ("sign:sign", "Sign a published folder, once it is verified: certificate and files, as they are now."),
    "verify": (
        "verify:verify",
        "Check that a published model is the certified one and that its claim follows from the stated events.",
    ),
    "ledger": ("ledger:app", "Look at a ledger, check it, and set budgets."),
    "audit": ("audit:app", "Measure the privacy of a training: evidence beside its bound, never a guarantee."),
    "epsilon": ("accounting.epsilon:epsilon", "Bound the epsilon of a plan that is fixed before the data is seen."),
    "compare": (
        "accounting.compare:compare_methods",
        "Show what every method says about one fixed plan, and why that does or does not hold.",
    ),
    "calibrate": (
        "accounting.calibrate:calibrate",
        "Find what is left out: --noise, --steps, --epochs, --rate or --batch; of a --schedule its initial or rate.",
    ),
    "plan": (
        "plan:plan",
        "Show steps, noise, epsilon and time of a run; charge nothing, read no private row, and train on no data.",
    ),
    "suggest": (
        "accounting.suggest:suggest",
        "Suggest batch, steps, delta and noise for a population and a budget, each with its reason.",
    ),
    "reproduce": (
        "reproduce:reproduce",
        "Measure tables and figures of the five papers anew, with what is certified beside what is printed.",
    ),
    "init": (
        "init:init",
        "Write a small example that runs as it is; or, of a table of your own, its schema. Nothing is overwritten.",
    ),
    "schema": (
        "schema:schema",
        "Draft a schema from the names and types of a table's columns, and say what is left to fill in.",
    ),
}
"""Where each command is, and its help in one line: a command is imported only when it is called."""

_DEBUG = "--debug"

_UNKNOWN = ("No such option", "Got unexpected extra argument")
"""Beginnings of messages that are followed by a pointer to `--help`."""

_OF_PARSERS = {
    ": Value error, ": ": ",
    "Input should be a valid number, unable to parse string as a number": "must be a number, such as 2000 or 1e-5",
    "Input should be a valid integer, unable to parse string as an integer": "must be a whole number, such as 200",
}

_CODES = ((BudgetExhausted, 3), (VerificationFailed, 1))
"""Errors whose exit code is not 2."""

QUICK = frozenset({"epsilon", "compare", "calibrate", "suggest", "ledger", "verify", "sign", "report"})
"""Commands whose time is that of their imports: they compute on one core, and leave little behind to collect."""


def application(names: Collection[str]) -> typer.Typer:
    """The application with the commands of these names. Without any name, it lists all commands and runs none."""
    app = typer.Typer(
        help="Train a neural network on people's data, publish it, and prove what it gives away.",
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name in names or COMMANDS:
        place, said = COMMANDS[name]
        if not names:
            app.command(name, help=said)(_listed)
            continue
        module, _, function = place.partition(":")
        found = getattr(import_module(f"discreet.cli.commands.{module}"), function)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name, cls=GivenOnce)(found)
    return app


def _listed() -> None:
    """Stands for a command in the list of all."""


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"discreet {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error of discreet itself comes from.")] = False,
) -> None:
    """`debug` is taken out of the arguments before they are read, wherever it stands."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with the code of the table above."""
    given = sys.argv[1:] if arguments is None else arguments
    if rank() > 0:
        sys.stdout = io.StringIO()  # the first of several processes talks
    if _DEBUG not in given:
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")  # its warnings are to those who program with it
    if QUICK.intersection(given[:1]):
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy's and SciPy's each start as many as there are cores
        gc.set_threshold(100_000)
    sys.exit(run(given))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; errors become one line on standard error.

    An exception that is not the library's own is a defect: one line as well, and with `--debug` where it came from.
    """
    debug, arguments = _DEBUG in arguments, [one for one in arguments if one != _DEBUG]
    try:
        with warnings.catch_warnings():
            if not debug:
                warnings.simplefilter("ignore")  # of torch and NumPy, to their users
            return _run(arguments)
    except (BrokenPipeError, SystemExit) as error:  # click leaves so, too, when nobody reads any more
        if isinstance(error, SystemExit) and error.code != 1:
            raise
        return 141
    except (OSError, MemoryError) as error:
        if debug:
            traceback.print_exc()
        return _fail(_of_the_machine(error), 2)
    except Exception as error:
        if debug:
            traceback.print_exc()
        lacks = needs_whole(error) if isinstance(error, ModuleNotFoundError) else None
        return _fail(_defect(error), 70) if lacks is None else _fail(f"this {lacks}", 2)


def _run(arguments: Sequence[str]) -> int:
    try:
        command = with_examples(typer.main.get_command(application(_called(arguments))))
        result = command.main(args=list(arguments), prog_name="discreet", standalone_mode=False)
    except typer.Abort:
        return _fail("interrupted", 130)
    except typer.TyperException as error:
        message = error.format_message()  # "" where help was shown instead
        for said, plainly in _OF_PARSERS.items():
            message = message.replace(said, plainly)
        if message.startswith(_UNKNOWN) and (context := getattr(error, "ctx", None)) is not None:
            message = f"{message}; `{context.command_path} --help` lists those that there are"
        return _fail(message, error.exit_code) if message else error.exit_code
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except DiscreetError as error:
        code = _code(error)
        return code if rank() > 0 and error.told else _fail(str(error), code)
    if result == 130:  # what typer makes of a KeyboardInterrupt, without a word
        return _fail("interrupted", 130)
    return result if isinstance(result, int) else 0


def _of_the_machine(error: OSError | MemoryError) -> str:
    """The line for an error of a disk, a path or the memory."""
    if isinstance(error, MemoryError):
        return "there is not enough memory; give it smaller input, or more memory. What was charged stays charged"
    where = "" if error.filename is None else f" {str(error.filename)[:80]}"
    return f"cannot use{where}: {error.strerror or error}; check path, disk and permissions. What was charged stays so"


def _defect(error: Exception) -> str:
    """The line for an exception that no command expects. Its words are left to `--debug`: they may show a row."""
    return (
        f"{type(error).__name__}: this is a defect of discreet; please report it with what --debug shows. What was "
        "charged stays charged, nothing else"
    )


def _code(error: DiscreetError) -> int:
    """The exit code of an error, by the table above."""
    if isinstance(error, Interrupted):
        return 128 + error.signal
    return next((code for kind, code in _CODES if isinstance(error, kind)), 2)


def _called(arguments: Sequence[str]) -> Collection[str]:
    """The command that is called, as the only one to load; all for the completions of a shell; else none."""
    if "_DISCREET_COMPLETE" in os.environ:
        return COMMANDS
    return [name for name in arguments[:1] if name in COMMANDS]


def _fail(message: str, code: int) -> int:
    who = "discreet" if rank() == 0 else f"discreet (process {rank()})"
    first, *listed = message.split("\n  ")  # of the faults of a table, say
    line = ": ".join([first, *(["; ".join(listed)] if listed else [])])
    typer.echo(f"{who}: {plain(' '.join(line.split()))}", err=True)
    return code
