"""The command ``train``; its training settings are those of :class:`~deepcanon.core.settings.Settings`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from deepcanon.cli._early import check_model
from deepcanon.cli._parse import (
    Json,
    OverwriteRun,
    Own,
    Target,
    Threads,
    check_name_first,
    own_options,
    read_options,
    use_threads,
)
from deepcanon.cli._print import Output
from deepcanon.core.settings import RECIPE, check_numbers, listed_settings


def _with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for every training setting, after its own."""
    *first, _ = inspect.signature(command, eval_str=True).parameters.values()
    settings = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_option(name))
        for name in listed_settings()
    ]
    command.__signature__ = inspect.Signature([*first, *settings])  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in [*first, *settings]}
    return command


def _option(name: str) -> Any:
    """The option of a setting, which is absent by default: then the recipe or the setting's own default holds."""
    kind, setting = listed_settings()[name]
    silent = setting.default is RECIPE or setting.default is False or setting.default in (None, ())
    shown = "" if silent else f" (default: {setting.default})"
    if kind is bool and setting.default:
        left_out = f"Leave out {setting.help[0].lower()}{setting.help[1:]}"
        flag = typer.Option(f"--no-{name.replace('_', '-')}", help=left_out, callback=_negated)
        return Annotated[bool | None, flag]
    if kind is bool:
        return Annotated[bool | None, typer.Option(f"--{name.replace('_', '-')}", help=f"{setting.help}{shown}")]
    if name == "freeze":
        return Annotated[list[str] | None, typer.Option(help=f"{setting.help} (repeatable){shown}")]
    plain = str if kind not in (int, float, int | None, float | None) else kind
    return Annotated[plain | None, typer.Option(help=f"{setting.help}{shown}")]


def _negated(said: bool | None) -> bool | None:
    """The setting that a flag switches off."""
    return None if said is None else not said


@_with_settings
def train(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A model of 'deepcanon list', or FILE.py:CLASS.")],
    data: Annotated[
        str | None,
        typer.Option(
            help="A data set of 'deepcanon data', a CSV or text file, or a folder of images by class or texts.",
            metavar="D",
        ),
    ] = None,
    target: Target = None,
    out: Annotated[Path | None, typer.Option(help="The folder of the run.", metavar="DIR")] = None,
    overwrite: OverwriteRun = False,
    threads: Threads = None,
    own: Own = None,
    json: Json = False,
    **settings: Any,
) -> None:
    """Train a model; every argument of its constructor is an option, too (see: deepcanon show NAME).

    A model that wraps another takes --model NAME and that one's arguments as --model.ARGUMENT VALUE.
    """
    check_name_first("train", name, "name of the model")
    options = read_options(context.args)
    check_model(name, options, own_options(context))
    given = {key: value for key, value in settings.items() if value is not None}
    check_numbers(given)
    from deepcanon.blueprints import from_words, untrained
    from deepcanon.cli.evaluate import report
    from deepcanon.runs.examining import as_trained
    from deepcanon.runs.run import Run

    asked = from_words(name, options, own_options(context), own or ())
    use_threads(threads)
    if given.get("freeze"):
        given["freeze"] = tuple(given["freeze"])
    printer = Output(json)
    for sentence in untrained(asked):
        printer.say(sentence)
    run = Run.train(asked, data, target=target, out=out, overwrite=overwrite, notify=printer.say, **given)
    report(printer, run, as_trained(run))
