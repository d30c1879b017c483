"""Commands that train and measure: train, resume, evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepcanon.cli.output import Json, Output, show_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from deepcanon.core import Model
    from deepcanon.data import Dataset
    from deepcanon.train import Run

Threads = Annotated[int | None, typer.Option(min=1, help="How many threads torch may use.")]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run.")]


def train(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The model, as 'deepcanon list' shows it.")],
    data: Annotated[
        str | None,
        typer.Option(help="A data set of 'deepcanon data', a CSV file, or a folder of images by class.", metavar="D"),
    ] = None,
    target: Annotated[str | None, typer.Option(help="The column of a CSV file that is to be predicted.")] = None,
    out: Annotated[Path | None, typer.Option(help="The folder of the run.", metavar="DIR")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run that is in the folder.")] = False,
    epochs: Annotated[int | None, typer.Option(help="How often to go through the data.")] = None,
    steps: Annotated[int | None, typer.Option(help="How many batches to learn from, in place of epochs.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="How many examples make a batch.")] = None,
    batch_size_schedule: Annotated[
        str | None, typer.Option(help="How batches grow from epoch to epoch: exponential:by=2,every=5")
    ] = None,
    lr: Annotated[float | None, typer.Option(help="The learning rate.")] = None,
    optimizer: Annotated[str | None, typer.Option(help="By name, with options: sgd:momentum=0.9")] = None,
    schedule: Annotated[str | None, typer.Option(help="Of the learning rate: cosine:warmup=100")] = None,
    clip: Annotated[str | None, typer.Option(help="Clip gradients: norm:1.0 or value:0.5")] = None,
    accumulate: Annotated[int | None, typer.Option(help="Split each batch into so many parts.")] = None,
    ema: Annotated[float | None, typer.Option(help="The decay of a moving average of the weights.")] = None,
    freeze: Annotated[list[str] | None, typer.Option(help="Parameters not to train: encoder.* (repeatable)")] = None,
    watch: Annotated[str | None, typer.Option(help="The validation metric that chooses the weights.")] = None,
    patience: Annotated[int | None, typer.Option(help="Stop after so many epochs without a better one.")] = None,
    seed: Annotated[int, typer.Option(help="Decides all that is random.")] = 0,
    threads: Threads = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 ... (by itself, what is there)")] = None,
    precision: Annotated[str | None, typer.Option(help="fp32 or bf16")] = None,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Only algorithms that repeat exactly.")
    ] = False,
    checkpoint_every: Annotated[int | None, typer.Option(help="Steps between checkpoints, not a minute.")] = None,
    keep: Annotated[int | None, typer.Option(help="How many checkpoints stay; by itself the last two.")] = None,
    json: Json = False,
) -> None:
    """Train a model; every argument of its constructor is an option, too (see: deepcanon show NAME).

    A model that wraps another takes --model NAME and that one's arguments as --model.ARGUMENT VALUE.
    """
    import torch

    from deepcanon.catalogue import find
    from deepcanon.cli.arguments import read_options, wanted
    from deepcanon.cli.places import folder_for
    from deepcanon.cli.suits import check_suits, default_data
    from deepcanon.core import UsageError
    from deepcanon.data import load_data
    from deepcanon.train import fit

    if name.startswith("-"):
        raise UsageError(f"the name of the model comes first: deepcanon train NAME {name} ...")
    model = wanted(find(name), read_options(context.args), others=[str(each.name) for each in context.command.params])
    if target is not None and data is None:
        raise UsageError(f"--target {target} is a column of which file? Add --data FILE.csv")
    chosen = load_data(data, target=target) if data is not None else default_data(model)
    check_suits(model, chosen)
    use_threads(threads)
    torch.manual_seed(seed)
    built = model.build(chosen.sizes, chosen.name)
    folder = out or folder_for(built.name(), chosen.name, taken=overwrite)
    result = fit(
        built,
        chosen,
        out=folder,
        overwrite=overwrite,
        epochs=epochs,
        steps=steps,
        batch_size=batch_size,
        batch_size_schedule=batch_size_schedule,
        lr=lr,
        optimizer=optimizer,
        schedule=schedule,
        clip=clip,
        accumulate=accumulate,
        ema=ema,
        freeze=tuple(freeze) if freeze else None,
        watch=watch,
        patience=patience,
        seed=seed,
        device=device,
        precision=precision,
        deterministic=deterministic or None,
        checkpoint_every=checkpoint_every,
        keep=keep,
    )
    voice = Output(json)
    set_beside(voice, folder, built, chosen, lambda changes: model.changed(changes).build(chosen.sizes, chosen.name))
    report(voice, folder, {"train": result.train, "valid": result.valid, "test": result.test})


def resume(run: Folder, threads: Threads = None, json: Json = False) -> None:
    """Go on with a run that was broken off; it ends as if it had never been."""
    import deepcanon
    from deepcanon.catalogue import find
    from deepcanon.cli.rows import own_data
    from deepcanon.core import build

    use_threads(threads)
    result = deepcanon.resume(run)
    voice, opened = Output(json), open_run(run)
    if hasattr(result.model, "supervised"):
        spec = opened.info["model"]
        set_beside(
            voice, run, result.model, own_data(opened),
            lambda changes: build({**spec, "arguments": {**spec["arguments"], **changes}}, find),
        )  # fmt: skip
    report(voice, run, {"train": result.train, "valid": result.valid, "test": result.test})


def evaluate(
    run: Folder,
    data: Annotated[str | None, typer.Option(help="Other data than the run's own.", metavar="D")] = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Measure a trained model, on its own data or on others."""
    import deepcanon
    from deepcanon.cli.rows import is_own, new_rows, own_data
    from deepcanon.train import evaluate as measure

    use_threads(threads)
    opened = open_run(run)
    model = deepcanon.load(run)
    seed = opened.settings.seed
    out = Output(json)
    own = own_data(opened) if is_own(opened, data) else None
    if own is not None and own.fingerprint() != opened.info["data"]["fingerprint"]:
        out.say(f"{own.name} has changed since {run} was trained, so what it holds counts as new.")
        own = None
    if own is not None:
        parts = {"train": own.train, "valid": own.valid, "test": own.test}
    else:
        parts = {"train": None, "test": new_rows(opened, model, data)}
    scores = {part: {} if rows is None else measure(model, rows, seed=seed) for part, rows in parts.items()}
    report(out, run, scores, data)


def report(out: Output, folder: Path, scores: Mapping[str, Mapping[str, float]], data: str | None = None) -> None:
    """What a run came to: its measures on each part of the data."""
    if not out.first:
        return
    run = open_run(folder)
    info = run.info
    answer = {
        "run": run.dir,
        "model": info["model"]["model"],
        "data": data or info["data"]["name"],
        "parameters": info["parameters"],
        "steps": info["results"]["steps"],
        "seconds": info["results"]["seconds"],
    }
    out.say(
        f"{answer['model']} on {answer['data']}: {answer['parameters']:,} parameters, {answer['steps']:,} steps, "
        f"{answer['seconds']:.1f} s"
    )
    parts = [part for part, measures in scores.items() if measures]
    names = dict.fromkeys(name for part in parts for name in scores[part])
    out.table(["", *parts], [[name, *(scores[part].get(name) for part in parts)] for name in names], numbers=parts)
    target = info["data"]["preprocessing"].get("target")
    standardized = target is not None and {"mse", "mae"} <= names.keys() and (target["mean"], target["std"]) != (0, 1)
    if standardized:
        out.say(
            f"mse and mae are in units of the target's standard deviation: of {target['name']!r}, "
            f"{show_number(target['std'])} in its own units, which predict gives."
        )
    if "beside" in info:
        out.table(["on the same labels", "accuracy"], list(info["beside"].items()), numbers=["accuracy"])
        answer["beside"] = info["beside"]
    out.say(f"The run is in {run.dir}, its pictures in {run.pictures}.")
    out.answer({**answer, **scores})


def set_beside(
    out: Output, folder: Path, model: Model[Any], data: Dataset[Any], build: Callable[[Mapping[str, Any]], Model[Any]]
) -> None:
    """Where few labels were learned from, train what learns without the unlabeled examples, to be seen beside it."""
    from deepcanon.comparison.baselines import beside, picture
    from deepcanon.core import SemiBatch
    from deepcanon.pictures import save

    run = open_run(folder)
    if not hasattr(model, "supervised") or not isinstance(data.train, SemiBatch) or "beside" in run.info:
        return
    baselines = beside(model, build, data, run.settings, out.say)
    if out.first:
        save(picture(baselines, data), run.pictures / "beside.png")
        run.update(beside={baseline.name: baseline.accuracy for baseline in baselines})


def open_run(folder: Path) -> Run:
    from deepcanon.train import Run

    return Run.open(folder)


def use_threads(threads: int | None) -> None:
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
