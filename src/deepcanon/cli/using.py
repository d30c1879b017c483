"""Commands that use a trained model: predict, sample, generate, export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepcanon.cli.output import Json, Output
from deepcanon.cli.training import Folder, open_run

if TYPE_CHECKING:
    from deepcanon.core import Model

MOST_IN_A_PICTURE = 4096
"""Samples beyond these are too small to be seen, and a picture of them may fill the memory."""

Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the file if it is there.")]
Seed = Annotated[int, typer.Option(help="Decides all that is random.")]


def predict(
    run: Folder,
    out: Annotated[Path, typer.Option(help="The CSV file to write.", metavar="FILE.csv")],
    data: Annotated[
        str | None, typer.Option(help="What to predict; by itself, the run's own data.", metavar="D")
    ] = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Write predictions for all rows of a CSV file, the images of a folder or the test part of a data set."""
    from deepcanon.cli.places import writable
    from deepcanon.cli.rows import new_rows
    from deepcanon.cli.tables import predictions, write_csv

    model = _model_that_can(run, "predict")
    path = writable(out, overwrite, ".csv")
    opened = open_run(run)
    rows = new_rows(opened, model, data, labeled=False)
    columns = predictions(model, rows, opened.info["data"])
    write_csv(path, columns)
    voice = Output(json)
    count = len(next(iter(columns.values())))  # of a graph, its nodes
    voice.say(f"{count} predictions of {model.name()} are in {path}; its columns: {', '.join(columns)}")
    voice.answer({"run": run, "model": model.name(), "rows": count, "columns": list(columns), "out": path})


def sample(
    run: Folder,
    out: Annotated[Path, typer.Option(help="A picture or a table of numbers.", metavar="FILE.png|FILE.csv")],
    n: Annotated[int, typer.Option("-n", min=1, help="How many samples.")] = 64,
    given: Annotated[
        str | None, typer.Option(help="Samples of this class, of a model that knows classes.", metavar="CLASS")
    ] = None,
    guidance: Annotated[float, typer.Option(help="Above 0 the class counts for more than was learned.")] = 0.0,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Draw samples from a trained model: a grid of images, a cloud of points, or a table of numbers."""
    import torch

    from deepcanon.cli.places import writable
    from deepcanon.cli.tables import write_csv
    from deepcanon.core import UsageError

    model = _model_that_can(run, "sample")
    path = writable(out, overwrite, ".png", ".csv")
    table = path.suffix.lower() == ".csv"
    if n > MOST_IN_A_PICTURE and not table:
        raise UsageError(
            f"a picture shows at most {MOST_IN_A_PICTURE:,} samples (got -n {n:,}); write more to a .csv file"
        )
    info = open_run(run).info["data"]
    told = _told(model, given, guidance, info)
    drawn = told.sample(n, generator=torch.Generator().manual_seed(seed)).detach().flatten(1)
    if table:
        write_csv(path, {f"x{i + 1}": drawn[:, i].tolist() for i in range(drawn.shape[1])})
    else:
        _draw(drawn, info, path, f"{n} samples of {model.name()}{'' if given is None else f', given {given}'}")
    voice = Output(json)
    voice.say(f"{n} samples of {model.name()} are in {path}")
    voice.answer({"run": run, "model": model.name(), "n": n, "out": path})


def generate(
    run: Folder,
    prompt: Annotated[str, typer.Option(help="The text to go on from.")] = "\n",
    steps: Annotated[int, typer.Option(min=1, help="How many tokens to add.")] = 200,
    temperature: Annotated[float, typer.Option(help="Below 1 more careful, above 1 more daring.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(min=1, help="Choose among the k likeliest tokens only.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Choose among the likeliest that make up this share.")] = None,
    stop: Annotated[str | None, typer.Option(help="End at this token.", metavar="TOKEN")] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Let a trained model of text go on from a prompt."""
    import torch

    from deepcanon.cli.texts import decode, encode, encode_one

    model = _model_that_can(run, "generate")
    info = open_run(run).info["data"]
    before, end = encode(prompt, info), encode_one(stop, info)
    generator = torch.Generator().manual_seed(seed)
    tokens = model.generate(
        before, steps, temperature=temperature, top_k=top_k, top_p=top_p, stop=end, generator=generator
    )
    added = tokens[0, before.shape[1] :].tolist()
    if end in added:
        tokens = tokens[:, : before.shape[1] + added.index(end)]
    text = decode(tokens, info)
    voice = Output(json)
    voice.say(text)
    voice.answer({"run": run, "model": model.name(), "prompt": prompt, "text": text})


def export(
    run: Folder,
    to: Annotated[Path, typer.Option(help="The file to write.", metavar="FILE.onnx|FILE.safetensors")],
    part: Annotated[str | None, typer.Option(help="Only this part of the model, as decoder.")] = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Write a trained model, or a part of it, for other programs; of a method, the plain model that it wraps."""
    import deepcanon
    from deepcanon.cli.places import writable
    from deepcanon.core import describe
    from deepcanon.interop.onnx import export_onnx
    from deepcanon.interop.parts import part_of
    from deepcanon.interop.weights import export_weights

    model = deepcanon.load(run)
    model = model.unwrapped() if hasattr(model, "unwrapped") else model  # type: ignore[operator]
    module = model if part is None else part_of(model, part)
    path = writable(to, overwrite, ".onnx", ".safetensors")
    difference = None
    if path.suffix.lower() == ".onnx":
        difference = export_onnx(module, _inputs_for(run, model, part), path)
    else:
        export_weights(module, path, {**describe(model), **({} if part is None else {"part": part})})
    voice = Output(json)
    voice.say(f"{model.name() if part is None else f'The {part} of {model.name()}'} is in {path}")
    if difference is not None:
        voice.say(f"In onnxruntime it differs from torch by at most {difference:.1g}.")
    voice.answer({"run": run, "model": model.name(), "part": part, "to": path, "difference": difference})


def _model_that_can(run: Path, method: str) -> Any:
    """The run's model, if it has the method."""
    import deepcanon
    from deepcanon.core import UsageError, methods_of

    model = deepcanon.load(run)
    if method not in methods_of(model):
        raise UsageError(f"{model.name()} cannot {method}; it can {', '.join(methods_of(model)) or 'only be trained'}")
    return model


def _told(model: Any, given: str | None, guidance: float, info: dict[str, Any]) -> Any:
    """The model, told of which class its samples are to be."""
    from deepcanon.core import UsageError
    from deepcanon.core.roles import ClassConditional

    if given is None:
        if guidance != 0:
            raise UsageError("guidance leads towards a class; name it by --given CLASS")
        return model
    if not isinstance(model, ClassConditional):
        raise UsageError(f"{model.name()} knows no classes, so leave out --given; guided_ddpm learns them")
    names = info["labels"] or [str(c) for c in range(info["sizes"]["classes"])]
    if given not in names:
        raise UsageError(f"there is no class {given!r}; there are {', '.join(names)}")
    return model.given(names.index(given), guidance)


def _draw(drawn: Any, info: dict[str, Any], path: Path, title: str) -> None:
    import math

    from deepcanon.core import UsageError
    from deepcanon.pictures import image_grid, save, scatter

    if info["kind"] == "images":
        save(image_grid(drawn, info["shape"], math.ceil(math.sqrt(len(drawn))), title=title), path)
    elif drawn.shape[1] == 2:
        save(scatter({"samples": drawn}, title), path)
    else:
        raise UsageError(f"samples of {drawn.shape[1]} values are no picture; write them to a .csv file")


def _inputs_for(run: Path, model: Model[Any], part: str | None) -> tuple[Any, ...]:
    """An example of two rows for the model, or for a part of it: whatever the model gives that part in use."""
    import torch

    from deepcanon.cli.rows import own_data
    from deepcanon.core import UsageError, methods_of
    from deepcanon.interop.parts import inputs_of, part_of

    opened = open_run(run)
    info = opened.info["data"]
    if info["kind"] in ("images", "points", "table"):
        inputs: tuple[Any, ...] = (torch.rand(2, *info["shape"], generator=torch.Generator().manual_seed(0)),)
    else:
        inputs = own_data(opened).train.select(torch.arange(2)).inputs
    if part is None:
        if model.forward.__name__ == "_forward_unimplemented":
            parts = ", ".join(name for name, _ in model.named_children())
            advice = f"export one of its parts by --part: {parts}" if parts else "export its weights to .safetensors"
            raise UsageError(f"{model.name()} is no single map; {advice}")
        return inputs
    calls = [lambda: model(*inputs)]
    if "sample" in methods_of(model):
        calls.append(lambda: model.sample(2))  # type: ignore[operator]
    found = inputs_of(part_of(model, part), calls)
    if found is None:
        raise UsageError(f"{model.name()} does not use its part {part!r} by itself; export the whole model")
    return found
