"""The command ``train``, with all settings of a training and all options by which a file is read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from deepcanon.cli._early import check_data, check_model
from deepcanon.cli._parse import (
    Filmed,
    Json,
    LogTo,
    OverwriteRun,
    Own,
    Threads,
    Watched,
    check_name_first,
    given_options,
    own_options,
    read_options,
    use_threads,
    watching,
    with_options,
)
from deepcanon.cli._print import Output
from deepcanon.core.reading import Reading
from deepcanon.core.settings import Settings, check_numbers


@with_options(Reading, Settings)
def train(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A model of 'deepcanon list', or FILE.py:CLASS.")],
    data: Annotated[
        str | None,
        typer.Option(
            help="A data set of 'deepcanon data', a file (CSV, Parquet, text, arrays), or a folder of images or texts.",
            metavar="D",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The folder of the run.", metavar="DIR")] = None,
    overwrite: OverwriteRun = False,
    doctor: Watched = False,
    film: Filmed = False,
    log_to: LogTo = None,
    threads: Threads = None,
    own: Own = None,
    json: Json = False,
    **options: Any,
) -> None:
    """Train a model; every argument of its constructor is an option, too (see: deepcanon show NAME).

    A model that wraps another takes --model NAME and that one's arguments as --model.ARGUMENT VALUE.
    """
    check_name_first("train", name, "name of the model")
    words, given = read_options(context.args), given_options(options)
    check_model(name, words, own_options(context))
    check_data(data)
    check_numbers(given)
    from deepcanon.blueprints import from_words, untrained
    from deepcanon.cli.evaluate import report
    from deepcanon.runs.examining import as_trained
    from deepcanon.runs.run import Run

    asked = from_words(name, words, own_options(context), own or ())
    use_threads(threads)
    printer = Output(json)
    for sentence in untrained(asked):
        printer.say(sentence)
    observers = watching(doctor, film, log_to, printer.say)
    run = Run.train(asked, data, out=out, overwrite=overwrite, notify=printer.say, observers=observers, **given)
    report(printer, run, as_trained(run))
