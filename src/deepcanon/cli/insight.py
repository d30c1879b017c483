"""The command ``insight``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from deepcanon.catalogue import check_question
from deepcanon.cli._early import check_model
from deepcanon.cli._findings import Out, Overwrite, folder_for, list_questions, print_finding
from deepcanon.cli._parse import Json, Own, Seed, Threads, check_name_first, own_options, read_options, use_threads
from deepcanon.core.errors import UsageError
from deepcanon.core.settings import LARGEST


def insight(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The insight; without it all are listed.")
    ] = None,
    subject: Annotated[
        str | None,
        typer.Argument(
            metavar="[DIR|MODEL|IMAGE]",
            help="A run's folder; a model of 'deepcanon list' or FILE.py:CLASS, untrained; or an image, if no model.",
        ),
    ] = None,
    out: Out = None,
    data: Annotated[
        str | None, typer.Option(help="The data set to use; by default, a run's own held-out examples.", metavar="D")
    ] = None,
    examples: Annotated[
        int | None,
        typer.Option(min=1, max=LARGEST, help="How many examples to use; by default 128, of a table 4,096."),
    ] = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    threads: Threads = None,
    own: Own = None,
    json: Json = False,
) -> None:
    """Look inside a model; every argument of the insight is an option, too (see: deepcanon show NAME).

    An untrained model takes the arguments of its constructor as options, too. It writes NAME.png and NAME.json and
    says what they mean.
    """
    if name is None:
        list_questions("insight", json)
        return
    check_name_first("insight", name)
    check_question("insight", name)
    if subject is not None and not subject.startswith("-"):
        check_model(subject)
    from deepcanon.blueprints import from_words, read_arguments, switches_off
    from deepcanon.catalogue import find_question
    from deepcanon.questions import fill, filled, is_image, is_run, options_of
    from deepcanon.runs.run import Run

    function = find_question("insight", name)
    words = list(context.args)
    if subject is not None and subject.startswith("-"):  # an option, since typer takes the first word it does not know
        words.insert(0, subject)
        subject = None
    takes, options = options_of(function), read_options(words)
    mine = {key: value for key, value in options.items() if key in takes or switches_off(key, value, takes)}
    others = {key: value for key, value in options.items() if key not in mine}
    use_threads(threads)
    arguments = read_arguments(function.__name__, takes, mine)
    known = [*takes, *own_options(context)]
    looked_at: Any = subject
    if subject is not None and "model" in filled(function) and not (is_run(subject) or is_image(subject)):
        looked_at = from_words(subject, others, known, own or ()) if not Path(subject).is_dir() else subject
    elif others:
        read_arguments(function.__name__, takes, others, known)  # which refuses them
    if subject is not None and is_run(subject):
        looked_at = Run(subject, own)
    elif own and looked_at is subject:
        raise UsageError("--class names a class of a run, and no run is named here: leave it out")
    if "seed" in takes:
        arguments["seed"] = seed
    filling, seen = fill(function, looked_at, data, examples, seed)
    base = Path("insights") / f"{function.__name__}-{re.sub(r'[^A-Za-z0-9._-]+', '-', seen.name)}"
    folder = folder_for(out, base, function.__name__, overwrite)
    print_finding(function(**{**filling, **arguments}), "insight", function.__name__, folder, overwrite, json)
