"""Parsing of the command line: options that several commands share, and all remaining words as options by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from deepcanon.core.errors import UsageError
from deepcanon.core.settings import LARGEST, RECIPE, Setting, listed_options
from deepcanon.runs.folder_parts import info_of


def _run(folder: Path) -> Path:
    """The folder, if a run is there: seen before a command imports torch."""
    info_of(folder)
    return folder


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, as the last line, in place of tables.")]
Threads = Annotated[int | None, typer.Option(min=1, max=1024, help="How many threads torch may use.")]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run.", callback=_run)]
Seed = Annotated[int, typer.Option(min=0, max=LARGEST, help="The seed of everything that is random.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the file if it is there.")]
Watched = Annotated[
    bool, typer.Option("--doctor", help="Have the doctor watch the training and warn as soon as something is ill.")
]
LogTo = Annotated[
    list[str] | None,
    typer.Option(
        "--log-to", help="Log to tensorboard, mlflow, trackio or wandb, too; may be given again.", metavar="TOOL"
    ),
]
Filmed = Annotated[
    bool,
    typer.Option("--film", help="Draw samples, decisions and texts at a dozen steps, with the same random numbers."),
]
OverwriteRun = Annotated[bool, typer.Option("--overwrite", help="Replace the run that is in the folder.")]

Exact = Annotated[bool, typer.Option("--exact", help="Search exactly: no more probable text is missed.")]
Top = Annotated[
    int | None, typer.Option(min=1, max=1000, help="Show so many of the most probable texts, with log-probabilities.")
]
LengthPenalty = Annotated[
    float, typer.Option(help="Of a search: the larger, the longer are the texts that it prefers.")
]

Nodes = Annotated[
    str | None,
    typer.Option(metavar="FILE.csv", help="The nodes of another edge list; by default, those of the training."),
]
Own = Annotated[
    list[str] | None,
    typer.Option(
        "--class",
        metavar="FILE.py:NAME",
        help="A class of the run that is not in the catalogue (repeatable): its code runs only if you name it.",
    ),
]


def with_options(*lists: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The command with an option for every entry of these typed dictionaries, after its own."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        *first, _ = inspect.signature(command, eval_str=True).parameters.values()
        listed = {name: option for each in lists for name, option in listed_options(each).items()}
        options = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_option(name, *option))
            for name, option in listed.items()
        ]
        command.__signature__ = inspect.Signature([*first, *options])  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in [*first, *options]}
        return command

    return decorate


def _option(name: str, kind: Any, setting: Setting) -> Any:
    """The option of a setting, which is absent by default: then the recipe or the setting's own default holds."""
    silent = setting.default is RECIPE or setting.default is False or setting.default in (None, ())
    shown = "" if silent else f" (default: {setting.default})"
    if kind is bool and setting.default:
        left_out = f"Leave out {setting.help[0].lower()}{setting.help[1:]}"
        flag = typer.Option(f"--no-{name.replace('_', '-')}", help=left_out, callback=_negated)
        return Annotated[bool | None, flag]
    if kind is bool:
        return Annotated[bool | None, typer.Option(f"--{name.replace('_', '-')}", help=f"{setting.help}{shown}")]
    if setting.repeatable:
        return Annotated[list[str] | None, typer.Option(help=f"{setting.help} (repeatable){shown}", callback=_tuple)]
    plain = str if kind not in (int, float, int | None, float | None) else kind
    return Annotated[plain | None, typer.Option(help=f"{setting.help}{shown}")]


def _negated(said: bool | None) -> bool | None:
    """The setting that a flag switches off."""
    return None if said is None else not said


def _tuple(said: list[str] | None) -> tuple[str, ...] | None:
    """The values of an option that may be repeated; None where it is not there."""
    return tuple(said) if said else None


def given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are there."""
    return {name: value for name, value in options.items() if value is not None}


def read_options(words: Iterable[str]) -> dict[str, list[str]]:
    """The words after each option.

    >>> read_options(["--hidden", "64", "64", "--model.no-bias", "--rate=-0.5"])
    {'hidden': ['64', '64'], 'model.no_bias': [], 'rate': ['-0.5']}
    """
    options: dict[str, list[str]] = {}
    values: list[str] | None = None
    for word in words:
        if word.startswith("-") and not _is_number(word):
            name, equals, value = word.lstrip("-").partition("=")
            name = name.replace("-", "_")
            if name in options:
                raise UsageError(f"--{name.replace('_', '-')} is given twice")
            values = options[name] = [value] if equals else []
        elif values is None:
            raise UsageError(f"what is {word!r}? The name of the model comes first, everything else follows an option")
        else:
            values.append(word)
    return options


def own_options(context: typer.Context) -> list[str]:
    """The options of the command itself, for advice on a misspelling."""
    return [str(each.name) for each in context.command.params]


def check_name_first(command: str, name: str, what: str = "name") -> None:
    """Refuse an option where the name belongs."""
    if name.startswith("-"):
        raise UsageError(f"the {what} comes first: deepcanon {command} NAME {name} ...")


def use_threads(threads: int | None) -> None:
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def watching(doctor: bool, film: bool, log_to: Iterable[str] | None, notify: Callable[[str], None]) -> list[Any]:
    """The observers that a training is to have, if asked for: the doctor, the film, those that log to other tools."""
    observers: list[Any] = []
    if doctor:
        from deepcanon.diagnosis.during_training import Doctor

        observers.append(Doctor(notify))
    if film:
        from deepcanon.train.film import Film

        observers.append(Film())
    if log_to:
        from deepcanon.interop.trackers import tracker

        observers += [tracker(tool) for tool in dict.fromkeys(log_to)]
    return observers


def _is_number(word: str) -> bool:
    try:
        float(word.partition(",")[0])
    except ValueError:
        return False
    return True
