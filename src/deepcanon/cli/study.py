"""The command ``study``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deepcanon.catalogue import check_question
from deepcanon.cli._findings import Out, Overwrite, folder_for, list_questions, print_finding
from deepcanon.cli._parse import Json, Threads, check_name_first, own_options, read_options, use_threads


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
        list_questions("study", json)
        return
    check_name_first("study", name)
    check_question("study", name)
    from deepcanon.blueprints import read_arguments
    from deepcanon.catalogue import find_question
    from deepcanon.questions import options_of
    from deepcanon.questions import study as run_study

    function = find_question("study", name)
    own = function.__name__
    arguments = read_arguments(own, options_of(function), read_options(context.args), own_options(context))
    folder = folder_for(out, Path("studies") / own, own, overwrite)
    use_threads(threads)
    print_finding(run_study(own, **arguments), "study", own, folder, overwrite, json)
