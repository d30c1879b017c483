"""The command that shows every number in a model's compute graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepcanon.cli.output import Json, Output
from deepcanon.cli.training import open_run
from deepcanon.cli.using import Overwrite, Seed

if TYPE_CHECKING:
    from deepcanon.core import AnyBatch, Model

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
    from deepcanon.cli.places import writable
    from deepcanon.core import UsageError
    from deepcanon.insight.microscope import microscope as look
    from deepcanon.insight.words import COLUMNS, table

    if name.startswith("-"):
        raise UsageError(f"the model comes first: deepcanon microscope NAME {name} ...")
    path = writable(out, overwrite, ".html", ".json")
    if (Path(name) / "run.json").is_file():
        if context.args:
            raise UsageError(f"a trained model has its arguments already; leave out {context.args[0]}")
        model, batch, where = _trained(Path(name), data, target)
    else:
        others = [str(each.name) for each in context.command.params]
        model, batch, where = _untrained(name, context.args, others, data, target, seed)
    graph = look(model, _few(batch, examples), seed=seed, title=f"{model.name()} on {where}")
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
            "parting": [edge.id for edge in graph.parting],
            "checks": {check.name: check.holds for check in graph.checks},
            "out": path,
        }
    )
    if graph.parting:
        raise typer.Exit(1)


def _trained(run: Path, data: str | None, target: str | None) -> tuple[Model[Any], AnyBatch, str]:
    import deepcanon
    from deepcanon.cli.rows import is_own, new_rows, own_data
    from deepcanon.core import UsageError

    if target is not None:
        raise UsageError(f"the run in {run} knows its target; leave out --target")
    opened = open_run(run)
    model = deepcanon.load(run)
    rows = own_data(opened).train if is_own(opened, data) else new_rows(opened, model, data)
    return model, rows, data or opened.info["data"]["name"]


def _untrained(
    name: str, words: list[str], others: list[str], data: str | None, target: str | None, seed: int
) -> tuple[Model[Any], AnyBatch, str]:
    import torch

    from deepcanon.catalogue import find
    from deepcanon.cli.arguments import read_options, wanted
    from deepcanon.cli.suits import check_suits, default_data
    from deepcanon.core import UsageError
    from deepcanon.data import load_data

    model = wanted(find(name), read_options(words), others=others)
    if target is not None and data is None:
        raise UsageError(f"--target {target} is a column of which file? Add --data FILE.csv")
    chosen = load_data(data, target=target) if data is not None else default_data(model)
    check_suits(model, chosen)
    torch.manual_seed(seed)
    built = model.build(chosen.sizes, chosen.name)
    built.prepare([chosen.train])
    return built, chosen.train, chosen.name


def _few(batch: AnyBatch, count: int) -> AnyBatch:
    import torch

    return batch.select(torch.arange(min(count, len(batch))))
