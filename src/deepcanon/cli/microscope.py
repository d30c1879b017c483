"""The command ``microscope``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from deepcanon.cli._early import check_data, check_model
from deepcanon.cli._parse import Json, Overwrite, Own, Seed, check_name_first, own_options, read_options, with_options
from deepcanon.cli._print import Output
from deepcanon.core.errors import UsageError
from deepcanon.core.plural import counted
from deepcanon.core.reading import Reading

ROWS = 60
"""The longest table in the terminal; all edges are in the file."""


@with_options(Reading)
def microscope(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME|DIR", help="A model of 'deepcanon list' or FILE.py:CLASS, or a run's folder.")
    ],
    out: Annotated[Path, typer.Option(help="A page for the browser, or numbers.", metavar="FILE.html|FILE.json")],
    data: Annotated[
        str | None,
        typer.Option(help="The data set whose first examples are used; by default, a run's own.", metavar="D"),
    ] = None,
    examples: Annotated[int, typer.Option(min=1, max=64, help="How many examples to send through.")] = 2,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    own: Own = None,
    json: Json = False,
    **reading: Any,
) -> None:
    """Show the value and the gradient on every edge of a model's compute graph, each checked by finite differences.

    An untrained model takes every argument of its constructor as an option, as in 'deepcanon train'. The exit code is 1
    if a gradient is not the derivative.
    """
    check_name_first("microscope", name, "model")
    options = read_options(context.args)
    check_model(name, options, own_options(context))
    check_data(data)
    from deepcanon.blueprints import from_words
    from deepcanon.core.files import writable
    from deepcanon.microscopy.summary import COLUMNS, table
    from deepcanon.questions import is_run, magnified, subject_of
    from deepcanon.runs.run import Run

    path = writable(out, overwrite, ".html", ".json")
    subject: Any
    if is_run(name):
        if context.args:
            raise UsageError(f"a trained model has its arguments already; leave out {context.args[0]}")
        subject = Run(name, own)
    else:
        subject = from_words(name, options, own_options(context), own or ())
    seen = subject_of(subject, data, reading, seed=seed, splits=("train",))
    graph = magnified(seen, examples, seed)
    graph.save(path, overwrite=overwrite)
    printer = Output(json)
    printer.table(COLUMNS, table(graph, ROWS), numbers=["edge", "shape", "value", "delta"])
    if len(graph.edges) > ROWS:
        printer.say(f"{counted(len(graph.edges) - ROWS, 'more edge')} are in {path}.")
    for check in graph.checks:
        printer.say(f"{'holds' if check.holds else 'FAILS'}  {check.name}: {check.detail}")
    printer.say(f"The graph of {graph.title}, loss {graph.loss:.6g}, is in {path}.")
    printer.result(
        {
            "model": seen.model_name,
            "data": seen.data,
            "loss": graph.loss,
            "nodes": len(graph.nodes),
            "edges": len(graph.edges),
            "mismatches": [edge.id for edge in graph.mismatches],
            "checks": {check.name: check.holds for check in graph.checks},
            "out": path,
        }
    )
    if graph.mismatches:
        raise typer.Exit(1)
