"""Commands that answer a question by numbers, a figure and sentences: insight and study."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepcanon.cli.output import Json, Output
from deepcanon.cli.training import Threads, use_threads
from deepcanon.cli.using import Seed

if TYPE_CHECKING:
    from deepcanon.catalogue import Question
    from deepcanon.core.finding import Finding

Out = Annotated[Path | None, typer.Option(help="The folder for the figure and the numbers.", metavar="DIR")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the figure and the numbers if they are there.")]


def study(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The study; without it all are listed.")] = None,
    out: Out = None,
    overwrite: Overwrite = False,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Repeat an experiment of the course; every argument of it is an option, too, as --seed (see: deepcanon show NAME).

    It writes NAME.png and NAME.json and says what they mean.
    """
    if name is None:
        _list("study", json)
        return
    from deepcanon.catalogue import find, find_question
    from deepcanon.cli.arguments import given, read_options
    from deepcanon.cli.questions import filled, options_of

    _comes_first("study", name)
    function = find_question("study", name)
    own = [str(each.name) for each in context.command.params]
    arguments = given(function.__name__, options_of(function), read_options(context.args), own)
    models = {each: find(each) for each in filled(function)}
    folder = _folder(out, Path("studies") / function.__name__, function.__name__, overwrite)
    use_threads(threads)
    _tell(function(**models, **arguments), "study", function.__name__, folder, json)


def insight(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The insight; without it all are listed.")
    ] = None,
    subject: Annotated[
        str | None,
        typer.Argument(
            metavar="[DIR|MODEL|IMAGE]",
            help="A run's folder; or a model of 'deepcanon list', untrained; or an image, where no model is needed.",
        ),
    ] = None,
    out: Out = None,
    data: Annotated[
        str | None, typer.Option(help="Whose examples to look at; of a run, its own held-out ones.", metavar="D")
    ] = None,
    examples: Annotated[int, typer.Option(min=1, help="How many examples to look at.")] = 128,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Look inside a model; every argument of the insight is an option, too (see: deepcanon show NAME).

    An untrained model takes the arguments of its constructor as options besides. It writes NAME.png and NAME.json and
    says what they mean.
    """
    if name is None:
        _list("insight", json)
        return
    from deepcanon.catalogue import find_question
    from deepcanon.cli.arguments import given, read_options
    from deepcanon.cli.questions import divided, fill, options_of

    _comes_first("insight", name)
    function = find_question("insight", name)
    words = list(context.args)
    if subject is not None and subject.startswith("-"):  # an option, since typer takes the first word it does not know
        words.insert(0, subject)
        subject = None
    takes = options_of(function)
    own, others = divided(read_options(words), takes)
    use_threads(threads)
    known = [*takes, *(str(each.name) for each in context.command.params)]
    arguments = given(function.__name__, takes, own)
    if "seed" in takes:
        arguments["seed"] = seed
    filling, where = fill(function, subject, others, known, data, examples, seed)
    base = Path("insights") / f"{function.__name__}-{re.sub(r'[^A-Za-z0-9._-]+', '-', where)}"
    folder = _folder(out, base, function.__name__, overwrite)
    _tell(function(**filling, **arguments), "insight", function.__name__, folder, json)


def _list(kind: Question, json: bool) -> None:
    from deepcanon.catalogue import questions

    voice = Output(json)
    voice.table([kind, "what it asks"], [(entry.name, entry.summary) for entry in questions(kind)])
    voice.say("deepcanon show NAME tells all about one of them.")
    plural = "studies" if kind == "study" else "insights"
    voice.answer({plural: [{"name": entry.name, "summary": entry.summary} for entry in questions(kind)]})


def _comes_first(kind: str, name: str) -> None:
    if name.startswith("-"):
        from deepcanon.core import UsageError

        raise UsageError(f"the name comes first: deepcanon {kind} NAME {name} ...")


def _folder(out: Path | None, base: Path, name: str, overwrite: bool) -> Path:
    """The folder for the results, in which nothing of that name is there unless it may be replaced."""
    from deepcanon.cli.places import free, writable

    folder = out or (base if overwrite else free(base))
    for suffix in (".png", ".json"):
        writable(folder / f"{name}{suffix}", overwrite, suffix)
    return folder


def _tell(finding: Finding, kind: str, name: str, folder: Path, json: bool) -> None:
    numbers: dict[str, Any] = dict(finding.numbers)
    picture, table = finding.save(folder, name)
    voice = Output(json)
    for sentence in finding.says:
        voice.say(sentence)
    voice.say(f"The figure is {picture}, its numbers are in {table}.")
    voice.answer({kind: name, "says": finding.says, "numbers": numbers, "picture": picture, "table": table})
