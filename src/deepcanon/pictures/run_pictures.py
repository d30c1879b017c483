"""The pictures of a run, chosen by the model's methods and the kind of the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor
from torch.distributions import Distribution

from deepcanon.core import (
    Batch,
    GraphBatch,
    HeldOut,
    How,
    Labeled,
    LabeledGraphs,
    Model,
    SentencePairs,
    SequencePairs,
    Sequences,
    Series,
    draw,
    drawing_from,
    eval_mode,
    given_batch,
)
from deepcanon.core.roles import (
    Aligns,
    Attends,
    Decodes,
    Encodes,
    Forecasts,
    Generates,
    HasEnergy,
    HasFilters,
    HasLogProb,
    HasNeighbors,
    HasUpdates,
    Maps,
    Predicts,
    Reconstructs,
    Samples,
    Shows,
)
from deepcanon.pictures.attention import alignment_picture, attention_heads
from deepcanon.pictures.bars import update_norms
from deepcanon.pictures.completions import completion, held_out_plot
from deepcanon.pictures.curves import curves
from deepcanon.pictures.filters import filter_grid, responses
from deepcanon.pictures.forecasts import forecast_fans
from deepcanon.pictures.graph_grid import graph_captions, graph_grid
from deepcanon.pictures.graphs import class_graph
from deepcanon.pictures.images import Limits, image_grids, rows
from deepcanon.pictures.mappings import mapping
from deepcanon.pictures.matrices import confusion
from deepcanon.pictures.points import decision_map, function_plot, latent_map, scatter, truth_plot
from deepcanon.pictures.style import save
from deepcanon.pictures.texts import HELD_OUT, text_picture
from deepcanon.pictures.word_vectors import word_pictures

CHUNK = 1024
FROM_FILES = 1000
"""The number of examples that are read for the pictures where the data do not lie in memory."""
MAPPED = 2000
COLUMNS = 10
CLOUDS = 4
GRID = 64
ATTENDED = 28
FORECASTS, PATHS = 6, 200
ALIGNED = 6


class Data(Protocol):
    """The part of a data set that the pictures need."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def train(self) -> Any: ...
    @property
    def valid(self) -> Any: ...
    @property
    def test(self) -> Any: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def vocabulary(self) -> tuple[str, ...]: ...
    @property
    def target_vocabulary(self) -> tuple[str, ...]: ...


def draw_run(
    model: Model[Any], data: Data, history: Sequence[Mapping[str, Any]], folder: Path, seed: int
) -> list[Path]:
    """Draw every picture that this model and these data allow into ``folder``.

    The held-out split is shown where there is one. Random draws depend on ``seed`` alone and the model's mode is
    restored, so that drawing does not change a training.
    """
    scene = _Scene.of(model, data, seed)
    drawn: dict[str, Figure] = {}
    if len(history) > 1:  # a single point, as of a model that learns in one step, is not a curve
        drawn["curves"] = curves(history, f"{model.name()} on {data.name}", _unit(scene), summed=not model.surrogate)
    with eval_mode(model), drawing_from(scene.generator()):
        for picture in PICTURES:
            drawn |= picture(scene)
    return [save(figure, Path(folder) / f"{name}.png") for name, figure in drawn.items()]


@dataclass(frozen=True)
class _Scene:
    """A model with the data it is shown on."""

    model: Model[Any]
    data: Data
    batch: Batch
    split: str
    limits: Limits
    seed: int

    @classmethod
    def of(cls, model: Model[Any], data: Data, seed: int) -> _Scene:
        split = next((split for split in ("test", "valid") if getattr(data, split)), "train")
        batch: Batch = getattr(data, split)
        if not batch.in_memory:
            batch = _spread(batch, FROM_FILES)
        device = next((t.device for t in (*model.parameters(), *model.buffers())), batch.x.device)
        batch = batch.to(device)
        real = batch.x.is_floating_point() and batch.x.layout == torch.strided and batch.x.numel() > 0
        limits = (float(batch.x.min()), float(batch.x.max())) if real else (0.0, 1.0)
        return cls(model, data, batch, split, limits, seed)

    @property
    def images(self) -> bool:
        return self.data.kind in ("images", "domains") and len(self.data.shape) in (2, 3)

    @property
    def planar(self) -> bool:
        points = self.batch.x.is_floating_point() and self.batch.x.shape[1:].numel() == 2
        return points and len(self.batch.inputs) == 1

    def given(self, count: int) -> Any:
        """The model; a conditional one conditioned on the context of so many examples."""
        return given_batch(self.model, self.some(count))

    def drawn(self, count: int) -> Tensor:
        """So many samples; of a conditional model with the contexts of as many examples, gone through again."""
        context = self.some(count)
        index = torch.arange(count, device=context.device) % max(1, len(context))
        samples: Tensor = given_batch(self.model, context.select(index)).sample(count, generator=self.generator())
        return samples

    def generator(self) -> Generator:
        return Generator(self.batch.x.device).manual_seed(self.seed)

    def some(self, count: int) -> Batch:
        return _spread(self.batch, count)


def _spread(batch: Batch, count: int) -> Batch:
    """Examples spread evenly over the split, so that data sorted by class show all classes."""
    count = min(count, len(batch))
    return batch.select(torch.arange(count, device=batch.device) * len(batch) // count)


def _in_chunks(output: Callable[[Batch], Tensor], batch: Batch) -> Tensor:
    """The outputs for all examples, computed in chunks that fit in memory."""
    order = torch.arange(len(batch), device=batch.x.device)
    parts = [order[start : start + CHUNK] for start in range(0, len(batch), CHUNK)]
    return torch.cat([output(batch.select(part)).cpu() for part in parts])


def _unit(scene: _Scene) -> str:
    if isinstance(scene.model, HasEnergy):
        return "energy per example"
    if isinstance(scene.model, Generates):
        return "nats per token"
    if scene.model.surrogate and not isinstance(scene.model, Predicts | HasLogProb):
        return "loss per example"
    if isinstance(scene.model, Forecasts):
        return "nats per step"
    regression = isinstance(scene.batch, Labeled) and scene.batch.y.is_floating_point()
    other_loss = isinstance(scene.model, Predicts) and (regression or scene.model.surrogate)
    errors = isinstance(scene.model, Reconstructs) and not isinstance(scene.model, HasLogProb)
    return "loss per example" if errors or other_loss else "nats per example"


def _classified(scene: _Scene) -> dict[str, Figure]:
    model, batch = scene.model, scene.batch
    if not isinstance(model, Predicts) or not isinstance(batch, Labeled | SentencePairs) or batch.y.is_floating_point():
        return {}
    probabilities = _in_chunks(lambda part: model.predict(*part.inputs, how="mean"), batch)
    predicted = _in_chunks(lambda part: model.predict(*part.inputs, how="mode"), batch)
    true, classes = batch.y.cpu(), probabilities.shape[1]
    matrix = torch.bincount(true * classes + predicted, minlength=classes**2).reshape(classes, classes)
    right = float((predicted == true).double().mean())
    title = f"Confusion on {scene.split}: accuracy {right:.2%} of {len(true)} examples"
    drawn = {"confusion": confusion(matrix, scene.data.labels, title)}
    if scene.images and right < 1:
        drawn["mistakes"] = _mistakes(scene, probabilities, predicted, true)
    if scene.planar:
        drawn["decision_map"] = decision_map(
            lambda x: _in_chunks(lambda part: model.predict(part.x, how="mean"), Batch(x)),
            batch.x, batch.y, scene.data.labels, f"Decision regions, with {scene.split} data: accuracy {right:.2%}",
        )  # fmt: skip
    return drawn


def _graphed(scene: _Scene) -> dict[str, Figure]:
    model, batch = scene.model, scene.batch
    if not isinstance(batch, GraphBatch) or not isinstance(model, Predicts):
        return {}
    probabilities = model.predict(*batch.inputs, how="mean").cpu()
    true, predicted = (classes[batch.mask].cpu() for classes in (batch.y, probabilities.argmax(1).to(batch.y.device)))
    classes = probabilities.shape[1]
    matrix = torch.bincount(true * classes + predicted, minlength=classes**2).reshape(classes, classes)
    right = float((predicted == true).double().mean())
    words = f"Confusion on {scene.split}: accuracy {right:.2%} of {len(true)} nodes"
    graph = class_graph(
        batch.graph, batch.y, probabilities, training=scene.data.train.mask, counted=batch.mask,
        labels=scene.data.labels, split=scene.split, title=f"{model.name()} on {scene.data.name}",
    )  # fmt: skip
    return {"graph": graph, "confusion": confusion(matrix, scene.data.labels, words)}


def _graph_rows(scene: _Scene) -> dict[str, Figure]:
    model, batch = scene.model, scene.batch
    if not isinstance(batch, LabeledGraphs) or not isinstance(model, Predicts) or batch.y.is_floating_point():
        return {}
    probabilities = _in_chunks(lambda part: model.predict(*part.inputs, how="mean"), batch)
    shown, captions = graph_captions(probabilities, batch.y.cpu(), scene.data.labels)
    title = f"{model.name()} on {scene.data.name}: {scene.split} graphs of every class, and wrong predictions"
    return {"graphs": graph_grid(batch.select(shown.to(batch.device)), captions, title)}


def _mistakes(scene: _Scene, probabilities: Tensor, predicted: Tensor, true: Tensor) -> Figure:
    """The wrong predictions with the least probability of the true class, worst first."""
    of_true = probabilities.gather(1, true.unsqueeze(1)).squeeze(1)
    wrong = (predicted != true).nonzero().squeeze(1)
    worst = wrong[of_true[wrong].argsort(stable=True)][:COLUMNS]
    names = scene.data.labels or tuple(str(c) for c in range(probabilities.shape[1]))
    captions = [
        f"{names[true[i]]}, predicted\n{names[predicted[i]]} ({float(probabilities[i, predicted[i]]):.0%})"
        for i in worst
    ]
    shown = {"": scene.batch.x[worst.to(scene.batch.x.device)]}
    title = f"{len(wrong)} wrong predictions on {scene.split}, worst first"
    return rows(shown, scene.data.shape, captions=captions, limits=scene.limits, title=title)


def _regressed(scene: _Scene) -> dict[str, Figure]:
    model, batch = scene.model, scene.batch
    if not isinstance(model, Predicts) or not isinstance(batch, Labeled) or not batch.y.is_floating_point():
        return {}
    how: How = "mean"
    predicted = _in_chunks(lambda part: model.predict(*part.inputs, how=how), batch)
    if not bool(predicted.isfinite().all()):  # heads with heavy tails have no mean
        how = "mode"
        predicted = _in_chunks(lambda part: model.predict(*part.inputs, how=how), batch)
    drawn = {
        "predictions": truth_plot(
            predicted, batch.y, f"Predictions ({how}) on {scene.split}: {len(predicted)} examples"
        )
    }
    if batch.x.shape[1:].numel() == 1 and len(batch.inputs) == 1:
        title = f"{model.name()} on {scene.data.name}, with {scene.split} data"
        drawn["function"] = function_plot(lambda x: model.predict(x, how=how), batch.x, batch.y, title)
    return drawn


def _completed(scene: _Scene) -> dict[str, Figure]:
    model, batch = scene.model, scene.batch
    if not isinstance(model, Predicts) or not isinstance(batch, HeldOut) or not bool(batch.asked.any()):
        return {}
    full = _in_chunks(lambda part: model.predict(part.x, how="mean"), batch)
    asked, title = batch.asked.cpu(), f"{model.name()} on {scene.data.name}"
    return {
        "completed": completion(batch.x, full, title),
        "predictions": held_out_plot(full[asked], batch.y.cpu()[asked], f"{title}, {scene.split}"),
    }


def _sampled(scene: _Scene) -> dict[str, Figure]:
    model = scene.model
    if not isinstance(model, Samples) or not (scene.images or scene.planar):
        return {}
    if scene.planar and not scene.images:
        points = {scene.split: scene.some(MAPPED).x, "samples": scene.drawn(MAPPED)}
        return {"samples": scatter(points, f"{model.name()}: data and samples")}
    groups = {f"data ({scene.split})": scene.some(GRID).x, "samples": scene.drawn(GRID)}
    means = _likelihood_means(scene.given(GRID), scene.generator())
    if means is not None:
        groups["samples, as means of the likelihood"] = means
    title = f"{model.name()} on {scene.data.name}"
    return {"samples": image_grids(groups, scene.data.shape, math.isqrt(GRID), limits=scene.limits, title=title)}


def _likelihood_means(model: Model[Any], generator: Generator) -> Tensor | None:
    """The means of the likelihood at draws from the prior of a latent-variable model: samples without pixel noise."""
    prior: Callable[[], Distribution] | None = getattr(model, "prior", None)
    if prior is None or not isinstance(model, Decodes):
        return None
    decoded = model.decode(draw(prior(), generator, (GRID,)))
    return decoded.mean if isinstance(decoded, Distribution) else decoded


def _reconstructed(scene: _Scene) -> dict[str, Figure]:
    model = scene.model
    if not isinstance(model, Reconstructs) or not (scene.images or scene.planar):
        return {}
    if scene.planar and not scene.images:
        x = scene.some(MAPPED).x
        points = {scene.split: x, "reconstructions": scene.given(MAPPED).reconstruct(x)}
        return {"reconstructions": scatter(points, f"{model.name()}: data and reconstructions")}
    x = scene.some(3 * COLUMNS).x
    title = f"{model.name()}: {scene.split} data and their reconstructions"
    shown = {"data": x, "reconstruction": scene.given(3 * COLUMNS).reconstruct(x)}
    return {"reconstructions": rows(shown, scene.data.shape, COLUMNS, limits=scene.limits, title=title)}


def _gallery(scene: _Scene) -> dict[str, Figure]:
    model = scene.model
    if not isinstance(model, Shows) or not (scene.images or scene.planar):
        return {}
    title = f"{model.name()} on {scene.data.name}"
    if scene.planar and not scene.images:
        x = scene.some(MAPPED // CLOUDS).x
        clouds = list(model.gallery(x, generator=scene.generator()).items())[:CLOUDS]
        return {"gallery": scatter({scene.split: x, **dict(clouds)}, title)}
    shown = {name: x[:COLUMNS] for name, x in model.gallery(scene.some(COLUMNS).x, generator=scene.generator()).items()}
    values = torch.cat([x.flatten() for x in shown.values()])
    if values.numel() == 0:
        return {}
    return {"gallery": rows(shown, scene.data.shape, limits=_most(values), title=title)}


def _most(values: Tensor) -> Limits:
    """The range of all values but the most extreme ones, which would leave the others in a narrow range of gray."""
    ordered = values.float().sort().values
    left_out = len(ordered) // 100
    return float(ordered[left_out]), float(ordered[-1 - left_out])


def _mapped(scene: _Scene) -> dict[str, Figure]:
    if not isinstance(scene.model, Maps) or not (scene.images or scene.planar):
        return {}
    some: Any = scene.some(MAPPED if scene.planar else COLUMNS)
    title, shape = f"{scene.model.name()} on {scene.data.name}", None if scene.planar else scene.data.shape
    return {"mapping": mapping(some.x, some.y, scene.model.map, title, shape)}


def _filtered(scene: _Scene) -> dict[str, Figure]:
    model = scene.model
    if not isinstance(model, HasFilters) or not scene.images:
        return {}
    filters, x = model.filters(), scene.some(COLUMNS).x
    title = f"{model.name()} on {scene.data.name}"
    drawn = {"filters": filter_grid(filters, f"{title}: first filters, white is positive")}
    if x.ndim == 4 and x.shape[1] == filters.shape[1]:
        drawn["responses"] = responses(x, filters, f"{title}: feature maps of its first filters")
    return drawn


def _neighbored(scene: _Scene) -> dict[str, Figure]:
    model = scene.model
    if not isinstance(model, HasNeighbors):
        return {}
    return word_pictures(model, model.vocabulary, f"{model.name()} on {scene.data.name}", scene.seed)


def _written(scene: _Scene) -> dict[str, Figure]:
    model = scene.model
    if not isinstance(model, Generates) or not isinstance(scene.batch, Sequences) or not scene.data.vocabulary:
        return {}
    some: Any = scene.some(HELD_OUT)
    title = f"{model.name()} on {scene.data.name}"
    return {
        "text": text_picture(
            model, model, some.x, some.lengths, scene.data.vocabulary, title, scene.split, scene.generator()
        )
    }


def _forecasted(scene: _Scene) -> dict[str, Figure]:
    model, batch = scene.model, scene.some(FORECASTS)
    if not isinstance(model, Forecasts) or not isinstance(batch, Series):
        return {}
    steps = int((batch.lengths - batch.origins).min())
    if steps == 0:
        return {}
    paths = model.forecast(batch.past, steps, samples=PATHS, generator=scene.generator())
    title = f"{model.name()} on {scene.data.name}: forecasts of {steps} steps on {scene.split}"
    return {"forecasts": forecast_fans(paths.cpu(), batch.to("cpu"), title)}


def _attended(scene: _Scene) -> dict[str, Figure]:
    model = scene.model
    if not isinstance(model, Attends) or not model.vocabulary:
        return {}
    first: Any = scene.batch.select(torch.zeros(1, dtype=torch.long, device=scene.batch.device))
    if isinstance(first, SentencePairs):  # without the padding
        x, *others = (first.x[:, : first.lengths], None, first.segments[:, : first.lengths])
    else:
        x, *others = (first.x[:, :ATTENDED],)
    maps = model.attention_maps(x, *others)[:, 0]  # (layers, heads, T, T)
    names = [model.vocabulary[code] for code in x[0].tolist()]
    title = f"{model.name()} on {scene.data.name}: attention of each head in a sequence of {scene.split}"
    return {"attention": attention_heads(maps, names, title)}


def _aligned(scene: _Scene) -> dict[str, Figure]:
    model, data, some = scene.model, scene.data, scene.some(ALIGNED)
    if not isinstance(model, Aligns) or not isinstance(some, SequencePairs) or not data.target_vocabulary:
        return {}
    title = f"{model.name()} on {data.name}: translations of {scene.split}, aligned with their sources"
    return {"alignment": alignment_picture(model, some, data.vocabulary, data.target_vocabulary, title)}


def _updated(scene: _Scene) -> dict[str, Figure]:
    model = scene.model
    if not isinstance(model, HasUpdates):
        return {}
    title = f"{model.name()} on {scene.data.name}: the update of each layer"
    return {"updates": update_norms(model.updates(), title)}


def _encoded(scene: _Scene) -> dict[str, Figure]:
    model, batch = scene.model, scene.some(MAPPED)
    if not isinstance(model, Encodes) or not isinstance(batch, Labeled) or batch.y.is_floating_point():
        return {}

    def code(part: Batch) -> Tensor:
        z = given_batch(model, part).encode(part.x)
        return (z.mean if isinstance(z, Distribution) else z).flatten(1)

    codes = _in_chunks(code, batch)
    if codes.shape[1] < 2:
        return {}
    title = f"{model.name()}: codes of {len(codes)} {scene.split} examples"
    return {"latent_map": latent_map(codes, batch.y, scene.data.labels, title)}


PICTURES = (
    _classified, _graphed, _graph_rows, _regressed, _completed, _sampled, _reconstructed, _gallery, _mapped, _filtered, _encoded,
    _neighbored,
    _updated, _attended, _forecasted, _aligned, _written,
)  # fmt: skip
