"""The command ``studio``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deepcanon.core.errors import UsageError
from deepcanon.runs.folder_parts import check_folder

RUNS = Path("runs")


def studio(
    folder: Annotated[Path, typer.Argument(help="The folder of runs to show, with its sub-folders.")] = RUNS,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; by default any that is free.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address, open no browser.")] = False,
    data: Annotated[
        list[Path] | None,
        typer.Option(help="A file or folder of yours that the page may train on (repeatable).", metavar="FILE"),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, max=64, help="How many jobs of the page run at a time.")] = 1,
    read_only: Annotated[bool, typer.Option("--read-only", help="Show only: nothing is started or written.")] = False,
) -> None:
    """Open a local page over a folder of runs: watch what trains, compare, look inside models and play."""
    try:
        from deepcanon.studio.server import address_of, bind, serve
    except ImportError as error:
        raise UsageError(
            f"the studio needs {error.name}: install deepcanon[studio], as in pip install 'deepcanon[studio]'"
        ) from error
    from deepcanon.studio.studio import Studio

    if folder == RUNS and not read_only:
        folder.mkdir(exist_ok=True)
    check_folder(folder)
    opened = Studio(folder, files=_named(data or []), read_only=read_only, jobs=jobs)
    listener = bind(port)
    address = address_of(opened, listener)

    def ready() -> None:
        typer.echo(f"The studio of {folder} is at\n{address}\nWhoever has this address can use it; Ctrl-C ends it.")
        if not no_browser:
            typer.launch(address)

    serve(opened, listener, ready)


def _named(paths: list[Path]) -> dict[str, Path]:
    """The user's own data by the names that the page knows them by."""
    named: dict[str, Path] = {}
    for path in paths:
        if not path.exists():
            raise UsageError(f"there is no file or folder {path}")
        if path.name in named:
            raise UsageError(f"{path} and {named[path.name]} have the same name: rename one of them")
        named[path.name] = path.resolve()
    return named
