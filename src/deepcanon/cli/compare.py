"""The command ``compare``."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepcanon.cli._early import check_data, check_model
from deepcanon.cli._parse import Json, Threads, given_options, use_threads, with_options
from deepcanon.cli._print import Output
from deepcanon.core.named_code import names_code
from deepcanon.core.reading import Reading

if TYPE_CHECKING:
    from deepcanon.comparison.tables import Row, Section


@with_options(Reading)
def compare(
    *,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME ...]",
            help="Models, with arguments where wanted: vae:likelihood=bernoulli,latent=4. Without any, some that suit "
            "the data are chosen, and it is said why.",
        ),
    ] = None,
    data: Annotated[
        str,
        typer.Option(
            help="A data set of 'deepcanon data', a file (CSV, Parquet, text, arrays), or a folder of images or texts.",
            metavar="D",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder for the runs and the report.", metavar="DIR")],
    seeds: Annotated[
        int, typer.Option(min=1, max=10_000, help="How many times to train each, with seeds 0, 1 ...")
    ] = 1,
    budget: Annotated[
        float | None,
        typer.Option(help="The most seconds for each training, of a model or of a baseline.", metavar="SECONDS"),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(min=1, help="How many epochs to train each model, in place of its recipe's.", metavar="N"),
    ] = None,
    baselines: Annotated[
        str,
        typer.Option(
            help="What stands next to the models: default (all that suit: boosting, a forest, neighbors and the linear "
            "model for tables; a Markov chain for text ...), none, or some by name.",
            metavar="NAMES",
        ),
    ] = "default",
    cost: Annotated[
        str | None,
        typer.Option(
            help="What mistakes cost: to miss an example of a class (ill=10,well=1), or a unit below and above a "
            "number (under=3,over=1).",
            metavar="COSTS",
        ),
    ] = None,
    learning_curve: Annotated[
        bool,
        typer.Option(
            "--learning-curve",
            help="Train all on a half, a quarter ... of the examples too: would more data help?",
        ),
    ] = False,
    threads: Threads = None,
    json: Json = False,
    **reading: Any,
) -> None:
    """Train several models on the same data and write a report that says which fits best.

    Each gets the form of the data that it models: images as zeros and ones, or dequantized. Baselines stand next to
    them, trained on the same split, and the report says where they are better. After an interruption the same command
    goes on; what is finished is kept.
    """
    for name in names or []:
        check_model(name if names_code(name) else name.partition(":")[0])
    check_data(data)
    from deepcanon.comparison.compare import compare as run_comparison

    printer = Output(json)
    use_threads(threads)
    try:
        with _termination_raised():
            compared = run_comparison(
                names or None, data, out, seeds=seeds, budget=budget, epochs=epochs, baselines=baselines.split(","),
                cost=cost, learning_curve=learning_curve, notify=printer.say,
                quiet=json or not sys.stdout.isatty(), **given_options(reading),
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
    from deepcanon.comparison.sentences import BEHIND, remarks, title

    printer.say(f"\n{title(section)}, on {section.data}")
    apart = any(section.behind(row) is not None for row in section.rows)
    columns = [*([BEHIND] if apart else []), *(column.title for column in section.columns)]
    rows = [_cells(section, row, apart) for row in section.rows]
    printer.table(["model", *columns], [*rows, *_baseline(section, apart)], numbers=columns)
    for remark in remarks(section):
        printer.say(remark)


def _baseline(section: Section, apart: bool) -> list[list[str]]:
    """The row of the baseline that uses no input; ``apart``: where there is a column of differences."""
    found = next((row.baseline for row in section.rows if row.baseline is not None), None)
    if found is None or section.question not in ("classes", "targets"):
        return []
    values = (column.write(column.of_baseline(found["test"])) for column in section.columns)
    return [[found["name"], *([""] if apart else []), *values]]


def _cells(section: Section, row: Row, apart: bool) -> list[str]:
    """The means over the seeds; of more than one seed, the range too."""
    from deepcanon.comparison.columns import NATS
    from deepcanon.comparison.phrases import difference_words

    cells = [f"{row.label}\nbaseline" if row.is_baseline else row.label]
    if apart:
        gap = section.behind(row)
        cells.append("" if gap is None else "{}\n({})".format(*difference_words(gap, section.chooser)))
    for column in section.columns:
        text = column.write(row.mean(column))
        values = row.values(column)
        if column is NATS and values:
            text += f" ({row.likelihood})"
        every = dict.fromkeys(column.write(value) for value in values)
        cells.append(f"{text}\n{' '.join(every)}" if len(every) > 1 else text)
    return cells
