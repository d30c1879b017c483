"""The application: its commands, and how it ends when something is wrong."""

from __future__ import annotations

import errno
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from deepcanon.cli import (
    checking,
    comparing,
    demo,
    findings,
    look,
    microscope,
    neighbors,
    show,
    training,
    unwrapping,
    using,
)

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
            sys.stderr.write(f"deepcanon: {sentence}\n")
        sys.exit(code if isinstance(code, int) else 0)


def _judge(error: Exception) -> tuple[str | None, int]:
    """What to tell the user and the exit code; no sentence for an error that is a bug."""
    if isinstance(error, OSError):
        reason = (error.strerror or str(error)).lower()
        sentence = f"{error.filename}: {reason}" if error.filename else reason
        return sentence, FAILURE if error.errno == errno.ENOSPC else WRONG_USAGE
    if hasattr(error, "format_message"):  # what typer found wrong in the command line itself
        return error.format_message(), WRONG_USAGE
    errors = sys.modules.get("deepcanon.core.errors")  # importing it here would import torch
    if errors is not None and isinstance(error, errors.DeepcanonError):
        return str(error), WRONG_USAGE if isinstance(error, errors.UsageError) else FAILURE
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

app.command("list", rich_help_panel=LOOK)(look.list_models)
app.command("show", rich_help_panel=LOOK)(show.show)
app.command("data", rich_help_panel=LOOK)(look.data)
app.command("runs", rich_help_panel=LOOK)(look.runs)
app.command("demo", rich_help_panel=LOOK)(demo.demo)
app.command("microscope", rich_help_panel=LOOK, context_settings=MODEL_OPTIONS)(microscope.microscope)
app.command("insight", rich_help_panel=LOOK, context_settings=MODEL_OPTIONS)(findings.insight)
app.command("train", rich_help_panel=TRAIN, context_settings=MODEL_OPTIONS)(training.train)
app.command("resume", rich_help_panel=TRAIN)(training.resume)
app.command("compare", rich_help_panel=TRAIN)(comparing.compare)
app.command("study", rich_help_panel=TRAIN, context_settings=MODEL_OPTIONS)(findings.study)
app.command("evaluate", rich_help_panel=TRAIN)(training.evaluate)
app.command("predict", rich_help_panel=USE)(using.predict)
app.command("sample", rich_help_panel=USE)(using.sample)
app.command("generate", rich_help_panel=USE)(using.generate)
app.command("nearest", rich_help_panel=USE)(neighbors.nearest)
app.command("export", rich_help_panel=USE)(using.export)
app.command("unwrap", rich_help_panel=USE)(unwrapping.unwrap)
app.command("check", rich_help_panel=USE)(checking.check)
