"""The demonstration: very different models trained on data that come along, and a page that shows them."""

from __future__ import annotations

import html
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepcanon.cli.output import Json, Output
from deepcanon.cli.training import Threads, use_threads

if TYPE_CHECKING:
    from deepcanon.data import Dataset
    from deepcanon.train import Result


def _reported(name: str) -> Callable[[Result, Dataset[Any]], float]:
    return lambda result, data: result.test[name]


def _restored(result: Result, data: Dataset[Any]) -> float:
    """The share of pixels that come back right from damaged patterns."""
    import torch

    rows = result.model.gallery(data.train.x[:10], generator=torch.Generator().manual_seed(0))  # type: ignore[operator]
    return float((rows["retrieved"] == rows["stored"]).double().mean())


@dataclass(frozen=True)
class Job:
    """One training of the demonstration: what is to be seen in it, and the measure that sums it up."""

    model: str
    data: str
    measure: str
    take: Callable[[Result, Dataset[Any]], float]
    words: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


JOBS = (
    Job(
        "softmax_regression",
        "digits",
        "accuracy",
        _reported("accuracy"),
        "The linear classifier learns to read handwritten digits. The confusion matrix shows which it mixes up.",
    ),
    Job(
        "mlp",
        "digits",
        "accuracy",
        _reported("accuracy"),
        "A network with hidden layers reads the same digits, with fewer mistakes.",
    ),
    Job(
        "vae",
        "digits:binary",
        "bound on -log p, in nats",
        _reported("nll"),
        "A variational autoencoder learns how digits come about. It draws new ones, and its map of codes sorts the "
        "classes though it has seen no label.",
        {"likelihood": "bernoulli"},
    ),
    Job(
        "gan",
        "eight-gaussians",
        "energy distance to the data",
        _reported("energy_distance"),
        "Two networks play against each other until samples look like data: eight clouds on a circle.",
    ),
    Job(
        "hopfield",
        "digits:binary",
        "pixels restored",
        _restored,
        "A memory without gradients stores patterns in one pass and restores them from damaged ones.",
        {"patterns": 10, "rule": "projection"},
    ),
)


@dataclass(frozen=True)
class Shown:
    """What came of a job."""

    job: Job
    run: Path
    value: float
    seconds: float


def demo(
    out: Annotated[Path | None, typer.Option(help="Where to put it; by itself, runs/demo.", metavar="DIR")] = None,
    seed: Annotated[int, typer.Option(help="Decides all that is random.")] = 0,
    threads: Threads = 1,
    json: Json = False,
) -> None:
    """Train five very different models on data that come along, and make a page that shows them."""
    import torch

    from deepcanon.catalogue import find
    from deepcanon.cli.arguments import Wanted
    from deepcanon.cli.places import free
    from deepcanon.core import UsageError
    from deepcanon.data import load_data
    from deepcanon.train import fit

    use_threads(threads)
    folder = out or free(Path("runs") / "demo")
    if folder.exists():
        raise UsageError(f"{folder} is already there: choose another folder")
    voice = Output(json)
    shown = []
    for job in JOBS:
        data = load_data(job.data)
        torch.manual_seed(seed)
        model = Wanted(find(job.model), job.arguments).build(data.sizes, data.name)
        run = folder / f"{job.model}-{job.data}".replace(":", "-")
        result = fit(model, data, out=run, quiet=not sys.stdout.isatty(), seed=seed)
        shown.append(Shown(job, run, job.take(result, data), result.seconds))
        voice.say(f"{job.model} on {job.data}: {job.measure} {shown[-1].value:.4g} ({result.seconds:.1f} s)")
    page = folder / "index.html"
    page.write_text(_page(folder, shown), encoding="utf-8")
    voice.table(
        ["model", "data", "measure", "value", "seconds"],
        [(each.job.model, each.job.data, each.job.measure, each.value, f"{each.seconds:.1f}") for each in shown],
        numbers=["value", "seconds"],
    )
    voice.say(f"Look at {page} in a browser; the runs are in {folder}.")
    voice.say(f"Next:  deepcanon runs {folder}")
    voice.say(f"       deepcanon sample {folder / 'vae-digits-binary'} --out digits.png")
    voice.say("       deepcanon train mlp --hidden 32,32 --dropout 0.2")
    voice.answer({
        "folder": folder,
        "page": page,
        "runs": [
            {
                "run": each.run, "model": each.job.model, "data": each.job.data,
                "measure": each.job.measure, "value": each.value, "seconds": each.seconds,
            }
            for each in shown
        ],
    })  # fmt: skip


def _page(folder: Path, shown: Sequence[Shown]) -> str:
    """A page that shows every picture, in plain HTML with nothing to load from elsewhere."""
    sections = []
    for each in shown:
        pictures = sorted((each.run / "pictures").glob("*.png"), key=lambda path: (path.stem == "curves", path.stem))
        sections.append(
            f"<h2>{html.escape(each.job.model)} <small>on {html.escape(each.job.data)}</small></h2>\n"
            f"<p>{html.escape(each.job.words)}</p>\n"
            f"<p><b>{html.escape(each.job.measure)}: {each.value:.4g}</b>, after {each.seconds:.1f} s</p>\n"
            + "".join(
                f'<figure><img src="{html.escape(path.relative_to(folder).as_posix())}" alt="{html.escape(path.stem)}">'
                f"<figcaption>{html.escape(path.stem.replace('_', ' '))}</figcaption></figure>\n"
                for path in pictures
            )
        )
    return _HEAD + "\n".join(sections) + "</body>\n</html>\n"


_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>deepcanon demo</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; color: #1f2933; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h2 { margin-top: 3rem; border-top: 1px solid #dde2e7; padding-top: 1rem }
small, figcaption { color: #66727f; font-weight: normal }
figure { display: inline-block; margin: 0 1rem 1rem 0; vertical-align: top; max-width: 100% }
img { max-width: 100%; max-height: 26rem }
</style>
</head>
<body>
<h1>Five models, one contract</h1>
<p>Each was trained by the same loop, with the settings its own recipe brings along.</p>
"""
