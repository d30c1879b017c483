"""Pictures of the pages that are made from the file tree: short trainings, insights, studies and data, each drawn once.

A picture is remembered by the content of the file that it shows, of the engines that this file imports, of this one,
and by the versions of the libraries. A training of less than a second shows what a model draws, not how good it gets.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import json
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

import deepcanon as dc
from deepcanon.blueprints import blueprint
from deepcanon.catalogue import find, find_question
from deepcanon.core import Finding, Graph, UsageError
from deepcanon.data import Dataset, load_data
from deepcanon.data.suits import default_data
from deepcanon.pictures.graphs import edge_lines, layout
from deepcanon.pictures.images import image_grid
from deepcanon.pictures.points import scatter
from deepcanon.pictures.run_pictures import telling_figure
from deepcanon.pictures.style import PALETTE, dress, new_figure
from deepcanon.questions import options_of
from deepcanon.train import Observer, Trainer, fit
from docs.engine.cells import import_once

SOURCE = Path(dc.__file__).parents[1]
DPI = 110
STEPS, SECONDS = 200, 0.3
"""A training ends after so many steps, or so many seconds of processor time."""
PATIENCE = 1.5
"""The seconds of processor time after which a study is left to the reader's own machine."""
SUBJECTS = (
    ("mlp", None), ("cnn", None), ("rnn", None), ("gcn", None), ("gpt", None), ("autoencoder", None),
    ("mlp", "breast-cancer"),
)  # fmt: skip
"""The models that insights measure, the first that an insight takes, last of all one of a table."""


@dataclass(frozen=True)
class Picture:
    """A picture: its file, a sentence for those who do not see it, and how it was made."""

    file: str
    alt: str
    caption: str
    says: tuple[str, ...] = ()


Drawn = tuple[Figure, str, str, tuple[str, ...]]
"""A figure, its words, its caption, and what it says."""


class _Short(Observer):
    """Ends a training after :data:`SECONDS`."""

    def begin(self, trainer: Trainer) -> None:
        self.begun = time.process_time()

    def step(self, trainer: Trainer, terms: Any) -> None:
        if time.process_time() - self.begun > SECONDS:
            trainer.stop("enough for a picture")


def pictures(
    wanted: Mapping[tuple[str, str], Path], folder: Path, processes: int, patience: float = PATIENCE
) -> dict[tuple[str, str], Picture]:
    """The picture of each kind and name that can be drawn; ``wanted`` gives the file that it shows.

    Pictures that are there already, in ``folder``, are not drawn again. A study that takes more than ``patience``
    seconds of processor time has none; with more patience, those that had none are tried again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    jobs = [(kind, name, str(folder / f"{kind}-{name}-{_digest(file)}")) for (kind, name), file in wanted.items()]
    missing = [job for job in jobs if not _is_there(job, patience)]
    if missing:
        torch.set_num_threads(1)
        for kind, name, _ in missing:
            _import(kind, name)
        import_once()
        with tempfile.TemporaryDirectory() as runs:
            subjects = [Path(runs) / (name if data is None else f"{name} on {data}") for name, data in SUBJECTS]
            context = multiprocessing.get_context("fork")
            with context.Pool(processes, _begin, (subjects, patience), maxtasksperchild=20) as pool:
                if any(kind == "insight" for kind, *_ in missing):
                    pool.starmap(_train, [(*each, out) for each, out in zip(SUBJECTS, subjects, strict=True)], 1)
                for failed in pool.imap_unordered(_job, sorted(missing, key=_longest_first), chunksize=1):
                    if failed:
                        raise RuntimeError(failed)
    found = {}
    for kind, name, stem in jobs:
        record = json.loads(Path(f"{stem}.json").read_text(encoding="utf-8"))
        if record is not None:
            found[kind, name] = Picture(f"{stem}.png", **{**record, "says": tuple(record["says"])})
    return found


def _is_there(job: tuple[str, str, str], patience: float) -> bool:
    record = Path(f"{job[2]}.json")
    return record.is_file() and (job[0] != "study" or patience <= PATIENCE or record.read_text() != "null")


def _begin(subjects: list[Path], patience: float) -> None:
    """What a process knows that draws pictures."""
    _STATE.update(subjects=subjects, patience=patience)
    torch.set_num_threads(1)
    os.environ.pop("DEEPCANON_DATA", None)  # the same book on every machine


_STATE: dict[str, Any] = {"subjects": [], "patience": PATIENCE}


def _job(job: tuple[str, str, str]) -> str:
    """Draw one picture and remember it; what went wrong, if anything did."""
    kind, name, stem = job
    torch.manual_seed(0)
    try:
        drawn = DRAW[kind](name)
    except Exception as error:
        return f"the picture of the {kind} {name} failed: {type(error).__name__}: {error}"
    record = None
    if drawn is not None:
        figure, alt, caption, says = drawn
        figure.savefig(f"{stem}.png", format="png", dpi=DPI)
        record = {"alt": alt, "caption": caption, "says": says}
    whole = Path(f"{stem}.{os.getpid()}")
    whole.write_text(json.dumps(record), encoding="utf-8")
    whole.replace(f"{stem}.json")
    return ""


def _of_model(name: str) -> Drawn | None:
    """The most telling figure of a short training on the model's default data."""
    asked = blueprint(name)
    data = default_data(asked)
    model = asked.build(data.model_sizes, data.name)
    result = fit(model, data, quiet=True, steps=STEPS, evaluate=False, pictures=False, observers=[_Short()])
    chosen = telling_figure(model, data, result.history)
    if chosen is None:
        return None
    shows, figure = chosen
    words = f"{shows.replace('_', ' ').capitalize()} of {name} after {result.steps} training steps on {data.name}."
    return figure, words, words, ()


def _of_insight(name: str) -> Drawn | None:
    """The figure of an insight into the first model that it can measure, or into images."""
    for subject, data in [*((run, None) for run in _STATE["subjects"]), (None, "digits"), (None, "karate")]:
        try:
            return _of_finding(dc.insight(name, subject, data=data), f"of {subject.name if subject else data}")
        except UsageError:
            continue
    return None


def _of_study(name: str) -> Drawn | None:
    """The figure of a study with its default options, where that takes but a moment; one of many seeds never does."""
    patience = _STATE["patience"]
    if patience <= PATIENCE and "seeds" in options_of(find_question("study", name)):
        return None
    signal.signal(signal.SIGPROF, _ring)
    signal.setitimer(signal.ITIMER_PROF, patience)
    try:
        return _of_finding(dc.study(name), "with its default options")
    except TimeoutError:
        return None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _ring(*_: Any) -> None:
    raise TimeoutError


def _of_finding(finding: Finding, how: str) -> Drawn:
    return finding.figure, finding.says[0], f"Drawn {how}.", finding.says


def _of_data(name: str) -> Drawn | None:
    """Some examples of data, where a picture shows them."""
    data = load_data(name)
    figure = next((figure for kind, draw in DATA.items() if data.kind == kind and (figure := draw(data))), None)
    words = f"Examples of {name}."
    return None if figure is None else (figure, words, words, ())


def _images(data: Dataset[Any]) -> Figure:
    x = data.train.x[:40]
    return image_grid(x, data.shape, 10, limits=(float(x.min()), float(x.max())), title=f"{data.name}: training images")


def _points(data: Dataset[Any]) -> Figure:
    return scatter({f"{data.name}: training examples": data.train.x[:1000]})


def _series(data: Dataset[Any]) -> Figure:
    figure = new_figure(7.5, 3.2, f"{data.name}: the first training series")
    axes = figure.add_subplot()
    for row, color in zip(data.train.x[:3], PALETTE, strict=False):
        axes.plot(row.reshape(row.shape[0], -1)[:, 0].tolist(), color=color, linewidth=1.2)
    dress(axes, "", "step", "value")
    return figure


def _graph(data: Dataset[Any]) -> Figure:
    from matplotlib.collections import LineCollection

    batch = data.train
    graph: Graph = batch.graph
    points = layout(graph)
    figure = new_figure(5.5, 4.4, f"{data.name}: {graph.nodes} nodes, by class")
    axes = figure.add_subplot()
    axes.add_collection(LineCollection(edge_lines(graph, points).tolist(), colors="#c3cad1", linewidths=0.6))
    shades = [PALETTE[int(label) % len(PALETTE)] for label in batch.y]
    axes.scatter(points[:, 0].tolist(), points[:, 1].tolist(), c=shades, s=24, zorder=2)
    dress(axes, grid=False)
    axes.set_axis_off()
    return figure


DATA: dict[str, Callable[[Dataset[Any]], Figure]] = {
    "images": _images, "points": _points, "series": _series, "graph": _graph,
}  # fmt: skip
DRAW: dict[str, Callable[[str], Drawn | None]] = {
    "model": _of_model, "insight": _of_insight, "study": _of_study, "data": _of_data,
}  # fmt: skip


def _train(name: str, data: str | None, out: Path) -> None:
    """A short run of a model that insights measure."""
    dc.Run.train(
        name, data, out=out, quiet=True, steps=60, evaluate=False, pictures=False, checkpoint_every=10, keep=10,
        observers=[_Short()],
    )  # fmt: skip


def _import(kind: str, name: str) -> None:
    """Import what a picture shows, so that the processes that draw need not."""
    if kind == "model":
        find(name)
    elif kind in ("insight", "study"):
        find_question("study" if kind == "study" else "insight", name)


def _longest_first(job: tuple[str, str, str]) -> int:
    return ("study", "insight", "model", "data").index(job[0])


@cache
def _digest(file: Path) -> str:
    """The digest of a file, of the engines that it imports, of this file and of the versions of the libraries."""
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("torch", "matplotlib")]
    parts = [*(path.read_bytes() for path in [*engines([file]), Path(__file__)]), *(v.encode() for v in versions)]
    return hashlib.sha256(b"\0".join([dc.__version__.encode(), *parts])).hexdigest()[:16]


def engines(files: Iterable[Path]) -> list[Path]:
    """These files and all that they import, directly or not, of what has a leading underscore."""
    found: dict[Path, None] = {}
    waiting = list(files)
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found[file] = None
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and "._" in node.module:
                path = SOURCE.joinpath(*node.module.split(".")).with_suffix(".py")
                waiting += [path] if path.is_file() else []
    return list(found)
