"""The application: the commands by name, and the exit codes.

| exit code | meaning |
|-----------|---------|
| 0         | done |
| 1         | a check failed (`verify`) |
| 2         | bad usage or bad input: one line says what, where and what to do |
| 3         | the budget is exhausted |
| 130, 143  | interrupted |
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from discreet.cli.commands import (
    debug,
    export,
    init,
    ledger,
    plan,
    predict,
    reproduce,
    schema,
    sign,
    train,
    tune,
    verify,
)
from discreet.cli.commands.accounting import calibrate, compare, epsilon, suggest
from discreet.cli.show.examples import with_examples
from discreet.core.errors import BudgetExhausted, DiscreetError, Interrupted, VerificationFailed, plain

app = typer.Typer(
    help="Train a neural network on people's data, publish it, and prove what it gives away.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"discreet {version('discreet')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


app.command("train")(train.train)
app.command("tune")(tune.tune)
app.command("debug")(debug.debug)
app.command("predict")(predict.predict)
app.command("export")(export.export)
app.command("sign")(sign.sign)
app.command("verify")(verify.verify)
app.add_typer(ledger.app, name="ledger")
app.command("epsilon")(epsilon.epsilon)
app.command("compare")(compare.compare_methods)
app.command("calibrate")(calibrate.calibrate)
app.command("plan")(plan.plan)
app.command("suggest")(suggest.suggest)
app.command("reproduce")(reproduce.reproduce)
app.command("init")(init.init)
app.command("schema")(schema.schema)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with the code of the table above."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; errors become one line on standard error."""
    try:
        command = with_examples(typer.main.get_command(app))
        result = command.main(args=list(arguments), prog_name="discreet", standalone_mode=False)
    except typer.Abort:
        return _fail("interrupted", 130)
    except typer.TyperException as error:
        message = error.format_message()  # "" where help was shown instead
        return _fail(message, error.exit_code) if message else error.exit_code
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except BudgetExhausted as error:
        return _fail(str(error), 3)
    except VerificationFailed as error:
        return _fail(str(error), 1)
    except Interrupted as error:
        return _fail(str(error), 128 + error.signal)
    except DiscreetError as error:
        return _fail(str(error), 2)
    return result if isinstance(result, int) else 0


def _fail(message: str, code: int) -> int:
    typer.echo(f"discreet: {plain(' '.join(message.split()))}", err=True)
    return code
