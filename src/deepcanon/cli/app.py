"""The application: its commands, and how it ends when something is wrong."""

from __future__ import annotations

import errno
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from deepcanon.cli._help import Command, NamingCommand
from deepcanon.cli.check import check
from deepcanon.cli.compare import compare
from deepcanon.cli.data import data
from deepcanon.cli.demo import demo
from deepcanon.cli.doctor import doctor
from deepcanon.cli.evaluate import evaluate
from deepcanon.cli.export import export
from deepcanon.cli.forecast import forecast
from deepcanon.cli.generate import generate
from deepcanon.cli.insight import insight
from deepcanon.cli.list import list_models
from deepcanon.cli.microscope import microscope
from deepcanon.cli.nearest import nearest
from deepcanon.cli.predict import predict
from deepcanon.cli.resume import resume
from deepcanon.cli.runs import runs
from deepcanon.cli.sample import sample
from deepcanon.cli.show import show
from deepcanon.cli.studio import studio
from deepcanon.cli.study import study
from deepcanon.cli.train import train
from deepcanon.cli.translate import translate
from deepcanon.cli.unwrap import unwrap
from deepcanon.core.errors import DeepcanonError, UsageError, brief
from deepcanon.core.memory import ran_out, sentence_about

WRONG_USAGE = 2
FAILURE = 1


class Commands(TyperGroup):
    """The commands, with one sentence on stderr and an exit code in place of a traceback for what a user can mend."""

    def main(self, *args: Any, **extra: Any) -> Any:
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except Exception as error:
            sentence, code = _judge(error)
            if sentence is None:
                raise
            sys.stderr.write(f"deepcanon: {brief(sentence)}\n")
        sys.exit(code if isinstance(code, int) else 0)


def _judge(error: Exception) -> tuple[str | None, int]:
    """The sentence for the user and the exit code; no sentence for an error that is a bug."""
    if ran_out(error):
        return f"{sentence_about(error)}; take smaller sizes, or fewer examples at a time", FAILURE
    if isinstance(error, OSError):
        reason = (error.strerror or str(error)).lower()
        sentence = f"{error.filename}: {reason}" if error.filename else reason
        return sentence, FAILURE if error.errno == errno.ENOSPC else WRONG_USAGE
    if hasattr(error, "format_message"):  # what typer found wrong in the command line itself
        return error.format_message(), WRONG_USAGE
    if isinstance(error, DeepcanonError):
        return str(error), WRONG_USAGE if isinstance(error, UsageError) else FAILURE
    return None, FAILURE


app = typer.Typer(
    cls=Commands,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"deepcanon {version('deepcanon')}")
        raise typer.Exit


@app.callback()
def deepcanon(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """The deep-learning canon: every model under one contract, one trainer, one command line."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


MODEL_OPTIONS = {"allow_extra_args": True, "ignore_unknown_options": True}
LOOK, TRAIN, USE = "Look around", "Train", "Use what was trained"

app.command("list", cls=Command, rich_help_panel=LOOK)(list_models)
app.command("show", cls=Command, rich_help_panel=LOOK)(show)
app.command("data", cls=Command, rich_help_panel=LOOK)(data)
app.command("runs", cls=Command, rich_help_panel=LOOK)(runs)
app.command("studio", cls=Command, rich_help_panel=LOOK)(studio)
app.command("demo", cls=Command, rich_help_panel=LOOK)(demo)
app.command("microscope", cls=NamingCommand, rich_help_panel=LOOK, context_settings=MODEL_OPTIONS)(microscope)
app.command("insight", cls=NamingCommand, rich_help_panel=LOOK, context_settings=MODEL_OPTIONS)(insight)
app.command("doctor", cls=NamingCommand, rich_help_panel=LOOK, context_settings=MODEL_OPTIONS)(doctor)
app.command("train", cls=NamingCommand, rich_help_panel=TRAIN, context_settings=MODEL_OPTIONS)(train)
app.command("resume", cls=Command, rich_help_panel=TRAIN)(resume)
app.command("compare", cls=Command, rich_help_panel=TRAIN)(compare)
app.command("study", cls=NamingCommand, rich_help_panel=TRAIN, context_settings=MODEL_OPTIONS)(study)
app.command("evaluate", cls=Command, rich_help_panel=TRAIN)(evaluate)
app.command("predict", cls=Command, rich_help_panel=USE)(predict)
app.command("sample", cls=Command, rich_help_panel=USE)(sample)
app.command("generate", cls=Command, rich_help_panel=USE)(generate)
app.command("forecast", cls=Command, rich_help_panel=USE)(forecast)
app.command("translate", cls=Command, rich_help_panel=USE)(translate)
app.command("nearest", cls=Command, rich_help_panel=USE)(nearest)
app.command("export", cls=Command, rich_help_panel=USE)(export)
app.command("unwrap", cls=Command, rich_help_panel=USE)(unwrap)
app.command("check", cls=Command, rich_help_panel=USE)(check)
