"""The command ``resume``."""

from __future__ import annotations

from deepcanon.cli._parse import Filmed, Folder, Json, LogTo, Own, Threads, Watched, use_threads, watching
from deepcanon.cli._print import Output


def resume(
    run: Folder,
    own: Own = None,
    doctor: Watched = False,
    film: Filmed = False,
    log_to: LogTo = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Resume an interrupted run from its last checkpoint; it ends as if it had not been interrupted."""
    from deepcanon.cli.evaluate import report
    from deepcanon.runs.examining import as_trained
    from deepcanon.runs.run import Run

    use_threads(threads)
    printer = Output(json)
    opened = Run(run, own).resume(notify=printer.say, observers=watching(doctor, film, log_to, printer.say))
    report(printer, opened, as_trained(opened))
