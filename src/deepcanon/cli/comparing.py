"""The command that asks which family of model fits some data."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from deepcanon.cli.output import Json, Output
from deepcanon.cli.training import Threads, use_threads

if TYPE_CHECKING:
    from deepcanon.cli.arguments import Wanted
    from deepcanon.comparison.job import Candidate
    from deepcanon.comparison.tables import Row, Section


def compare(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME ...", help="Models, with arguments where wanted: vae:likelihood=bernoulli,latent=4"
        ),
    ],
    data: Annotated[
        str, typer.Option(help="A data set of 'deepcanon data', a CSV file, or a folder of images.", metavar="D")
    ],
    out: Annotated[Path, typer.Option(help="The folder for the runs and the report.", metavar="DIR")],
    target: Annotated[str | None, typer.Option(help="The column of a CSV file that is to be predicted.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many times to train each, with seeds 0, 1 ...")] = 1,
    budget: Annotated[float | None, typer.Option(help="The most seconds for each training.", metavar="SECONDS")] = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Train several models on the same data and write a report that says which fits best.

    Each gets the form of the data that it models: images as zeros and ones, or dequantized. Broken off, the same
    command goes on where it was; what is finished is kept.
    """
    from deepcanon.comparison.job import compare as run_all
    from deepcanon.comparison.report import write_report
    from deepcanon.comparison.sentences import answers
    from deepcanon.comparison.tables import failures, sections

    voice = Output(json)
    candidates = [candidate(name) for name in names]
    use_threads(threads)
    try:
        with _termination_raised():
            comparison = run_all(
                candidates, data, out, target=target, seeds=seeds, budget=budget, tell=voice.say,
                quiet=json or not sys.stdout.isatty(),
            )  # fmt: skip
            report = write_report(comparison, candidates, out)
    except (KeyboardInterrupt, SystemExit) as stop:
        voice.say(f"stopped; the same command goes on with what is in {out}")
        raise typer.Exit(128 + signal.SIGINT if isinstance(stop, KeyboardInterrupt) else int(stop.code or 1)) from stop
    for section in sections(comparison):
        _show(voice, section)
    for label, reasons in failures(comparison).items():
        voice.say(f"{label} did not work: {' '.join(reasons)}")
    for sentence in (sentence for section in sections(comparison) for sentence in answers(section)):
        voice.say(sentence)
    voice.say(f"The report is {report}; all numbers are in {out / 'compare.json'}.")
    voice.answer({**comparison, "out": out, "report": report})
    if not any(entry["measured"] for entry in comparison["runs"]):
        raise typer.Exit(1)


def candidate(text: str) -> Candidate:
    """The model that ``name:argument=value,argument=value`` asks for; a slash parts the values of one argument."""
    from deepcanon.catalogue import find
    from deepcanon.cli.arguments import wanted
    from deepcanon.core import UsageError

    name, _, rest = text.partition(":")
    options: dict[str, list[str]] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f"arguments are written NAME:argument=value,argument=value; got {text!r}")
        options[key.strip().replace("-", "_")] = value.split("/")
    return _as_candidate(text, wanted(find(name), options, prefix=""))


@contextmanager
def _termination_raised() -> Iterator[None]:
    """A SIGTERM between two trainings raises SystemExit, as one amid a training does, so that it is answered too."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():  # elsewhere Python lets no one listen
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _as_candidate(label: str, asked: Wanted) -> Candidate:
    from deepcanon.cli.arguments import Wanted
    from deepcanon.comparison.job import Candidate
    from deepcanon.core import UsageError

    if asked.run is not None:
        raise UsageError(f"compare trains every model from its start; name a model in place of the run {asked.run}")
    parts = {n: _as_candidate(n, value) for n, value in asked.arguments.items() if isinstance(value, Wanted)}
    return Candidate(label, asked.cls, {**asked.arguments, **parts})


def _show(voice: Output, section: Section) -> None:
    from deepcanon.comparison.sentences import remarks, title

    voice.say(f"\n{title(section)}, on {section.data}")
    columns = [column.title for column in section.columns]
    voice.table(["model", *columns], [_cells(section, row) for row in section.rows], numbers=columns)
    for remark in remarks(section):
        voice.say(remark)


def _cells(section: Section, row: Row) -> list[str]:
    """The means over the seeds; of more than one seed, the range too."""
    from deepcanon.comparison.tables import NATS

    cells = [row.label]
    for column in section.columns:
        text = column.write(row.mean(column))
        values = row.values(column)
        if column is NATS and values:
            text += f" ({row.kind})"
        every = dict.fromkeys(column.write(value) for value in values)
        cells.append(f"{text}\n{' '.join(every)}" if len(every) > 1 else text)
    return cells
