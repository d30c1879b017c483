"""The command that shows every number in a model's compute graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deepcanon.cli.output import Json, Output
from deepcanon.cli.using import Overwrite, Seed

ROWS = 60
"""The longest table in the terminal; all edges are in the file."""


def microscope(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME|DIR", help="A model of 'deepcanon list', or a run's folder.")],
    out: Annotated[Path, typer.Option(help="A page for the browser, or numbers.", metavar="FILE.html|FILE.json")],
    data: Annotated[
        str | None, typer.Option(help="Whose first examples to look at; of a run, its own data.", metavar="D")
    ] = None,
    target: Annotated[str | None, typer.Option(help="The column of a CSV file that is to be predicted.")] = None,
    examples: Annotated[int, typer.Option(min=1, max=64, help="How many examples to send through.")] = 2,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Show the value and the gradient on every edge of a model's compute graph, each checked by finite differences.

    An untrained model takes every argument of its constructor as an option, as in 'deepcanon train'. The exit code is 1
    if a gradient is not the derivative.
    """
    from deepcanon.cli.arguments import read_options
    from deepcanon.cli.places import writable
    from deepcanon.cli.subjects import few, is_run, trained, untrained
    from deepcanon.core import UsageError
    from deepcanon.microscopy.microscope import microscope as look
    from deepcanon.microscopy.summary import COLUMNS, table

    if name.startswith("-"):
        raise UsageError(f"the model comes first: deepcanon microscope NAME {name} ...")
    path = writable(out, overwrite, ".html", ".json")
    if is_run(name):
        if context.args:
            raise UsageError(f"a trained model has its arguments already; leave out {context.args[0]}")
        if target is not None:
            raise UsageError(f"the run in {name} knows its target; leave out --target")
        model, batch, where = trained(Path(name), data, ["train"])
    else:
        others = [str(each.name) for each in context.command.params]
        model, batch, where = untrained(name, read_options(context.args), others, data, target, seed, ["train"])
    graph = look(model, few(batch, examples), seed=seed, title=f"{model.name()} on {where}")
    graph.save(path)
    voice = Output(json)
    voice.table(COLUMNS, table(graph, ROWS), numbers=["edge", "shape", "value", "delta"])
    if len(graph.edges) > ROWS:
        voice.say(f"{len(graph.edges) - ROWS} more edges are in {path}.")
    for check in graph.checks:
        voice.say(f"{'holds' if check.holds else 'FAILS'}  {check.name}: {check.detail}")
    voice.say(f"The graph of {graph.title}, loss {graph.loss:.6g}, is in {path}.")
    voice.answer(
        {
            "model": model.name(),
            "data": where,
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
