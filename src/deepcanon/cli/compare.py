"""The command ``compare``."""

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

from deepcanon.cli._early import check_model
from deepcanon.cli._parse import Json, Target, Threads, use_threads
from deepcanon.cli._print import Output
from deepcanon.core.named_code import names_code

if TYPE_CHECKING:
    from deepcanon.comparison.tables import Row, Section


def compare(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME ...", help="Models, with arguments where wanted: vae:likelihood=bernoulli,latent=4"
        ),
    ],
    data: Annotated[
        str,
        typer.Option(
            help="A data set of 'deepcanon data', a CSV or text file, or a folder of images or texts.", metavar="D"
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder for the runs and the report.", metavar="DIR")],
    target: Target = None,
    seeds: Annotated[
        int, typer.Option(min=1, max=10_000, help="How many times to train each, with seeds 0, 1 ...")
    ] = 1,
    budget: Annotated[float | None, typer.Option(help="The most seconds for each training.", metavar="SECONDS")] = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Train several models on the same data and write a report that says which fits best.

    Each gets the form of the data that it models: images as zeros and ones, or dequantized. After an
    interruption the same command goes on; what is finished is kept.
    """
    for name in names:
        check_model(name if names_code(name) else name.partition(":")[0])
    from deepcanon.comparison.compare import compare as run_comparison

    printer = Output(json)
    use_threads(threads)
    try:
        with _termination_raised():
            compared = run_comparison(
                names, data, out, target=target, seeds=seeds, budget=budget, notify=printer.say,
                quiet=json or not sys.stdout.isatty(),
            )  # fmt: skip
    except (KeyboardInterrupt, SystemExit) as stop:
        printer.say(f"stopped; the same command goes on with what is in {out}")
        raise typer.Exit(128 + signal.SIGINT if isinstance(stop, KeyboardInterrupt) else int(stop.code or 1)) from stop
    for section in compared.sections:
        _show(printer, section)
    for label, reasons in compared.failures.items():
        printer.say(f"{label} did not work: {' '.join(reasons)}")
    printer.say(str(compared))
    printer.result({**compared.content, "out": out, "report": compared.report})
    if not any(entry["measured"] for entry in compared.content["runs"]):
        raise typer.Exit(1)


@contextmanager
def _termination_raised() -> Iterator[None]:
    """A SIGTERM between two trainings raises SystemExit, as one amid a training does, so that it is handled too."""

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


def _show(printer: Output, section: Section) -> None:
    from deepcanon.comparison.sentences import remarks, title

    printer.say(f"\n{title(section)}, on {section.data}")
    columns = [column.title for column in section.columns]
    rows = [_cells(section, row) for row in section.rows]
    printer.table(["model", *columns], [*rows, *_baseline(section)], numbers=columns)
    for remark in remarks(section):
        printer.say(remark)


def _baseline(section: Section) -> list[list[str]]:
    """The row of the baseline of models that predict."""
    found = next((row.baseline for row in section.rows if row.baseline is not None), None)
    if found is None or section.question not in ("classes", "targets"):
        return []
    return [[found["name"], *(column.write(column.of_baseline(found["test"])) for column in section.columns)]]


def _cells(section: Section, row: Row) -> list[str]:
    """The means over the seeds; of more than one seed, the range too."""
    from deepcanon.comparison.columns import NATS

    cells = [row.label]
    for column in section.columns:
        text = column.write(row.mean(column))
        values = row.values(column)
        if column is NATS and values:
            text += f" ({row.likelihood})"
        every = dict.fromkeys(column.write(value) for value in values)
        cells.append(f"{text}\n{' '.join(every)}" if len(every) > 1 else text)
    return cells
