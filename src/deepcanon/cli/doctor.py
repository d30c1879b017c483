"""The command ``doctor``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from deepcanon.cli._early import check_data
from deepcanon.cli._parse import Json, Overwrite, Own, own_options, read_options, with_options
from deepcanon.cli._print import Output
from deepcanon.core.errors import UsageError
from deepcanon.core.plural import counted
from deepcanon.core.reading import Reading
from deepcanon.core.settings import Settings, listed_settings


@with_options(Reading, Settings)
def doctor(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|DIR|FILE.py:CLASS", help="A model of 'deepcanon list', a run's folder, or a module of yours."
        ),
    ] = None,
    data: Annotated[str | None, typer.Option(help="The data set; by default, a run's own.", metavar="D")] = None,
    loss: Annotated[
        str | None,
        typer.Option(help="The loss of a plain module: FILE.py:NAME, or one of torch.nn by name.", metavar="LOSS"),
    ] = None,
    step: Annotated[
        str | None,
        typer.Option(help="A training step of yours, step(model, optimizer, batch).", metavar="FILE.py:NAME"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A folder for doctor.json and the page doctor.html.", metavar="DIR")
    ] = None,
    budget: Annotated[float, typer.Option(min=1, help="The time that it may take.", metavar="SECONDS")] = 60,
    show_all: Annotated[
        bool, typer.Option("--all", help="Go on after the first cause, and show suspicions and notes, too.")
    ] = False,
    explain: Annotated[
        str | None, typer.Option(help="Say what a check measures and why ('all' lists them), and end.", metavar="CHECK")
    ] = None,
    overwrite: Overwrite = False,
    own: Own = None,
    json: Json = False,
    **options: Any,
) -> None:
    """Examine a training: is it healthy, and if not, why? The exit code is 1 if something is ill.

    Copies are trained for a moment, as they are and with one thing changed: a cause is named only if its repair helps.
    A model takes every argument of its constructor as an option, as in 'deepcanon train'.
    """
    printer = Output(json)
    if explain is not None:
        _explain(printer, explain)
        return
    if name is None:
        raise UsageError("what is to be examined? deepcanon doctor NAME|DIR|FILE.py:CLASS --data D")
    check_data(data)
    from deepcanon.core.reading import reading_of
    from deepcanon.diagnosis.doctor import doctor as examine

    settings = {key: value for key, value in options.items() if key in listed_settings() and value is not None}
    reading = reading_of({key: value for key, value in options.items() if key not in listed_settings()})
    subject = _subject(context, name, own)
    report = examine(
        subject,
        _data(data, reading),
        loss=None if loss is None else _loss(loss),
        step=None if step is None else _named(step),
        budget=budget,
        thorough=show_all,
        **settings,
    )
    shown = [*report, *(report.suspicions if show_all else []), *(report.notes if show_all else [])]
    rows: list[tuple[str, ...]] = [(each.check, each.grade, each.cause, _number(each), each.advice) for each in shown]
    if show_all:
        rows += [(check, "passed", "", _first(numbers), "") for check, numbers in report.passed.items()]
        rows += [(check, "skipped", "", "", reason) for check, reason in report.skipped.items()]
    if rows:
        printer.table(["check", "verdict", "cause", "evidence", "what to do"], rows)
    printer.say(f"{report.subject} on {report.data}: {report if report.healthy else _verdict(report)}")
    if out is not None:
        files = report.save(out, overwrite=overwrite)
        printer.say(f"The report is in {files[-1]}.")
    printer.result({**report.to_json(), **({} if out is None else {"out": out})})
    if not report.healthy:
        raise typer.Exit(1)


def _verdict(report: Any) -> str:
    return f"{counted(len(report), 'cause')} found in {report.seconds:.1f} s. {next(iter(report))}."


def _explain(printer: Output, name: str) -> None:
    from deepcanon.diagnosis.doctor import checks
    from deepcanon.diagnosis.doctor import explain as explanation

    if name == "all":
        rows = [(check.name, check.stage, check.explanation.partition("\n")[0]) for check in checks()]
        printer.table(["check", "stage", "what must hold"], rows)
        printer.result({"checks": [{"check": row[0], "stage": row[1], "holds": row[2]} for row in rows]})
        return
    text = explanation(name)
    printer.verbatim(text)
    printer.result({"check": name, "explanation": text})


def _subject(context: typer.Context, name: str, own: Any) -> Any:
    from deepcanon.blueprints import from_words, is_code
    from deepcanon.core import Model
    from deepcanon.core.named_code import load_named
    from deepcanon.questions import is_run
    from deepcanon.runs.run import Run

    options = read_options(context.args)
    if is_run(name):
        if context.args:
            raise UsageError(f"a trained model has its arguments already; leave out {context.args[0]}")
        return Run(name, own)
    if is_code(name):
        thing = load_named(name)
        if not (isinstance(thing, type) and issubclass(thing, Model)):
            if options:
                raise UsageError(f"a module of yours is built without arguments; leave out {context.args[0]}")
            return name
    return from_words(name, options, own_options(context), own or ())


def _data(data: str | None, reading: Reading) -> Any:
    if data is None:
        return None
    from deepcanon.data import load_data

    return load_data(data, **reading)


def _loss(name: str) -> Any:
    from torch import nn

    if ":" in name:
        return _named(name)
    found = getattr(nn, name, None)
    if found is None or not name.endswith("Loss"):
        raise UsageError(f"torch.nn has no loss {name!r}; write CrossEntropyLoss, MSELoss ..., or FILE.py:NAME")
    return found()


def _named(name: str) -> Any:
    from deepcanon.core.named_code import load_named

    thing = load_named(name)
    return thing() if isinstance(thing, type) else thing


def _number(found: Any) -> str:
    """The first number of the evidence."""
    return _first({key: value for key, value in found.evidence.items() if key != "figure"})


def _first(numbers: dict[str, Any]) -> str:
    for key, value in numbers.items():
        if isinstance(value, int | float | str):
            words = f"{value:.3g}" if isinstance(value, float) else str(value)
            return f"{key.replace('_', ' ')} {words}"
    return ""
