"""The command ``resume``."""

from __future__ import annotations

from deepcanon.cli._parse import Folder, Json, Threads, use_threads
from deepcanon.cli._print import Output


def resume(run: Folder, threads: Threads = None, json: Json = False) -> None:
    """Go on with a run that was broken off; it ends as if it had never been."""
    from deepcanon.cli.evaluate import report
    from deepcanon.comparison.baselines import add_baselines
    from deepcanon.core import Blueprint
    from deepcanon.runs.run import Run

    use_threads(threads)
    voice, opened = Output(json), Run(run)
    opened = opened.resume()
    if voice.first:
        add_baselines(opened, Blueprint.from_json(opened.info["model"], opened.find), voice.say)
    report(voice, opened, opened.scores)
