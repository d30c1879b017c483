"""The pictures of a run, chosen by the model's methods and the kind of the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor
from torch.distributions import Distribution

from deepcanon.core import (
    Batch,
    HeldOut,
    How,
    Labeled,
    Model,
    SentencePairs,
    draw,
    drawing_from,
    eval_mode,
)
from deepcanon.core.display import Pictures
from deepcanon.core.plural import counted
from deepcanon.core.roles import (
    Decodes,
    Encodes,
    Forecasts,
    Generates,
    HasEnergy,
    HasFilters,
    HasLogProb,
    HasUpdates,
    Maps,
    MapsExamples,
    Predicts,
    Reconstructs,
    Samples,
    Shows,
)
from deepcanon.pictures.bars import update_norms
from deepcanon.pictures.class_names import TOLD_APART, class_names
from deepcanon.pictures.completions import completion, held_out_plot
from deepcanon.pictures.curves import curves
from deepcanon.pictures.filters import filter_grid, responses
from deepcanon.pictures.graph_pictures import graph_rows, graphed, paired, sampled_graphs
from deepcanon.pictures.images import Limits, image_grids, rows
from deepcanon.pictures.mappings import mapping
from deepcanon.pictures.matrices import confusion
from deepcanon.pictures.points import decision_map, example_map, function_plot, latent_map, scatter, truth_plot
from deepcanon.pictures.scene import Data, Scene, codes_of, in_chunks
from deepcanon.pictures.sequence_pictures import (
    aligned,
    attended,
    branched,
    captioned,
    forecasted,
    illustrated,
    neighbored,
    sounded,
    translated,
    written,
)
from deepcanon.pictures.style import save
from deepcanon.pictures.videos import continued, filmed

MAPPED = 2000
COLUMNS = 10
CLOUDS = 4
GRID = 64
MOST_CLASSES = 1000
"""A confusion matrix of more classes has less than a pixel for each."""


def draw_run(
    model: Model[Any], data: Data, history: Sequence[Mapping[str, Any]], folder: Path, seed: int
) -> list[Path]:
    """Draw every picture that this model and these data allow into ``folder``.

    The held-out split is shown where there is one. Random draws depend on ``seed`` alone and the model's mode is
    restored, so that drawing does not change a training.
    """
    saved = Pictures()
    for name, figure in run_figures(model, data, history, seed).items():
        saved.append(save(figure, Path(folder) / f"{name}.png"))
        figure.clear()  # a figure refers to itself: its memory would wait for the garbage collector
    return saved


def run_figures(
    model: Model[Any], data: Data, history: Sequence[Mapping[str, Any]], seed: int = 0
) -> dict[str, Figure]:
    """The figures of :func:`draw_run` by name; none is written."""
    scene = Scene.of(model, data, seed)
    return _curves(scene, history) | _shown(scene, PICTURES)


def _curves(scene: Scene, history: Sequence[Mapping[str, Any]]) -> dict[str, Figure]:
    numbers = [record for record in history if record["kind"] != "picture"]
    if len(numbers) < 2:  # a single point, as of a model that learns in one step, is not a curve
        return {}
    model, title = scene.model, f"{scene.model.name()} on {scene.data.name}"
    return {"curves": curves(numbers, title, _unit(scene), summed=not model.surrogate)}


def telling_figure(
    model: Model[Any], data: Data, history: Sequence[Mapping[str, Any]], seed: int = 0
) -> tuple[str, Figure] | None:
    """The name and the figure that tell most of what is special to a model; the others are not drawn."""
    scene = Scene.of(model, data, seed)
    kept: dict[str, Figure] = {}
    for picture in sorted(PICTURES, key=lambda each: COMMON.index(each) if each in COMMON else -1):
        shown = _shown(scene, [picture])
        names = [name for name in shown if name not in LAST_SHOWN]
        if names:
            return names[0], shown[names[0]]
        kept |= shown
    kept |= _curves(scene, history)
    return next(((name, kept[name]) for name in LAST_SHOWN if name in kept), None)


def film_figures(model: Model[Any], data: Data, seed: int = 0) -> dict[str, Figure]:
    """Those figures of a run by name that are worth a film: what the model draws, decides and writes, by one noise."""
    return _shown(Scene.of(model, data, seed), FILMED)


def _shown(scene: Scene, pictures: Sequence[Callable[[Scene], dict[str, Figure]]]) -> dict[str, Figure]:
    drawn: dict[str, Figure] = {}
    with eval_mode(scene.model), drawing_from(scene.generator()):
        for picture in pictures:
            drawn |= picture(scene)
    return drawn


def _unit(scene: Scene) -> str:
    if isinstance(scene.model, HasEnergy):
        return "energy per example"
    if isinstance(scene.model, Generates):
        return "nats per token"
    if scene.model.surrogate and not isinstance(scene.model, Predicts | HasLogProb):
        return "loss per example"
    if isinstance(scene.model, Forecasts):
        return f"nats per {scene.batch.term}"
    regression = isinstance(scene.batch, Labeled) and scene.batch.y.is_floating_point()
    other_loss = isinstance(scene.model, Predicts) and (regression or scene.model.surrogate)
    errors = isinstance(scene.model, Reconstructs) and not isinstance(scene.model, HasLogProb)
    return "loss per example" if errors or other_loss else "nats per example"


def _classified(scene: Scene) -> dict[str, Figure]:
    model, batch = scene.model, scene.batch
    if not isinstance(model, Predicts) or not isinstance(batch, Labeled | SentencePairs) or batch.y.is_floating_point():
        return {}
    probabilities = in_chunks(lambda part: model.predict(*part.inputs, how="mean"), batch)
    predicted = in_chunks(lambda part: model.predict(*part.inputs, how="mode"), batch)
    true, classes = batch.y.cpu(), probabilities.shape[1]
    if classes > MOST_CLASSES:
        return {}
    matrix = torch.bincount(true * classes + predicted, minlength=classes**2).reshape(classes, classes)
    right = float((predicted == true).double().mean())
    title = f"Confusion on {scene.split}: accuracy {right:.2%} of {counted(len(true), 'example')}"
    drawn = {"confusion": confusion(matrix, scene.data.labels, title)}
    if scene.images and right < 1:
        drawn["mistakes"] = _mistakes(scene, probabilities, predicted, true)
    return drawn


def _decided(scene: Scene) -> dict[str, Figure]:
    model, batch = scene.model, scene.batch
    if not isinstance(model, Predicts) or not isinstance(batch, Labeled) or batch.y.is_floating_point():
        return {}
    if not scene.planar or model.predict(batch.x[:1], how="mean").shape[1] > TOLD_APART:
        return {}
    right = float((in_chunks(lambda part: model.predict(part.x), batch) == batch.y.cpu()).double().mean())
    title = f"Decision regions, with {scene.split} data: accuracy {right:.2%}"
    return {
        "decision_map": decision_map(
            lambda x: in_chunks(lambda part: model.predict(part.x, how="mean"), Batch(x)),
            batch.x, batch.y, scene.data.labels, title, _plane(scene),
        )
    }  # fmt: skip


def _plane(scene: Scene) -> tuple[str, str]:
    return scene.feature(0), scene.feature(1)


def _mistakes(scene: Scene, probabilities: Tensor, predicted: Tensor, true: Tensor) -> Figure:
    """The wrong predictions with the least probability of the true class, worst first."""
    of_true = probabilities.gather(1, true.unsqueeze(1)).squeeze(1)
    wrong = (predicted != true).nonzero().squeeze(1)
    worst = wrong[of_true[wrong].argsort(stable=True)][:COLUMNS]
    names = class_names(scene.data.labels, probabilities.shape[1])
    captions = [
        f"{names[true[i]]}, predicted\n{names[predicted[i]]} ({float(probabilities[i, predicted[i]]):.0%})"
        for i in worst
    ]
    shown = {"": scene.batch.x[worst.to(scene.batch.x.device)]}
    title = f"{counted(len(wrong), 'wrong prediction')} on {scene.split}, worst first"
    return rows(shown, scene.data.shape, captions=captions, limits=scene.limits, title=title)


def _regressed(scene: Scene) -> dict[str, Figure]:
    model, batch = scene.model, scene.batch
    if not isinstance(model, Predicts) or not isinstance(batch, Labeled) or not batch.y.is_floating_point():
        return {}
    how: How = "mean"
    predicted = in_chunks(lambda part: model.predict(*part.inputs, how=how), batch)
    if not bool(predicted.isfinite().all()):  # heads with heavy tails have no mean
        how = "mode"
        predicted = in_chunks(lambda part: model.predict(*part.inputs, how=how), batch)
    drawn = {
        "predictions": truth_plot(
            predicted,
            batch.y,
            f"Predictions ({how}) on {scene.split}: {counted(len(predicted), 'example')}",
            scene.target,
        )
    }
    if batch.x.shape[1:].numel() == 1 and len(batch.inputs) == 1:
        title = f"{model.name()} on {scene.data.name}, with {scene.split} data"
        names = (scene.feature(0), scene.target) if scene.data.kind == "table" else ("x", "y")
        drawn["function"] = function_plot(lambda x: model.predict(x, how=how), batch.x, batch.y, title, names)
    return drawn


def _completed(scene: Scene) -> dict[str, Figure]:
    model, batch = scene.model, scene.batch
    if not isinstance(model, Predicts) or not isinstance(batch, HeldOut) or not bool(batch.asked.any()):
        return {}
    full = in_chunks(lambda part: model.predict(part.x, how="mean"), batch)
    asked, title = batch.asked.cpu(), f"{model.name()} on {scene.data.name}"
    rated = scene.data.kind == "ratings"
    return {
        "completed": completion(batch.x, full, title, ("item", "user") if rated else ("column", "row")),
        "predictions": held_out_plot(full[asked], batch.y.cpu()[asked], f"{title}, {scene.split}"),
    }


def _sampled(scene: Scene) -> dict[str, Figure]:
    model = scene.model
    if not isinstance(model, Samples) or not (scene.images or scene.planar):
        return {}
    if scene.planar and not scene.images:
        points = {scene.split: scene.some(MAPPED).x, "samples": scene.drawn(MAPPED)}
        return {"samples": scatter(points, f"{model.name()}: data and samples", _plane(scene))}
    groups = {f"data ({scene.split})": scene.some(GRID).x, "samples": scene.drawn(GRID)}
    means = _likelihood_means(scene.given(GRID), len(scene.some(GRID)), scene.generator())
    if means is not None:
        groups["samples, as means of the likelihood"] = means
    title = f"{model.name()} on {scene.data.name}"
    return {"samples": image_grids(groups, scene.data.shape, math.isqrt(GRID), limits=scene.limits, title=title)}


def _likelihood_means(model: Model[Any], count: int, generator: Generator) -> Tensor | None:
    """The means of the likelihood at draws from the prior of a latent-variable model: samples without pixel noise."""
    prior: Callable[[], Distribution] | None = getattr(model, "prior", None)
    if prior is None or not isinstance(model, Decodes):
        return None
    distribution = prior()
    decoded = model.decode(draw(distribution, generator, () if distribution.batch_shape else (count,)))
    return decoded.mean if isinstance(decoded, Distribution) else decoded


def _reconstructed(scene: Scene) -> dict[str, Figure]:
    model = scene.model
    if not isinstance(model, Reconstructs) or not (scene.images or scene.planar):
        return {}
    if scene.planar and not scene.images:
        x = scene.some(MAPPED).x
        points = {scene.split: x, "reconstructions": scene.given(MAPPED).reconstruct(x)}
        return {"reconstructions": scatter(points, f"{model.name()}: data and reconstructions", _plane(scene))}
    x = scene.some(3 * COLUMNS).x
    title = f"{model.name()}: {scene.split} data and their reconstructions"
    shown = {"data": x, "reconstruction": scene.given(3 * COLUMNS).reconstruct(x)}
    return {"reconstructions": rows(shown, scene.data.shape, COLUMNS, limits=scene.limits, title=title)}


def _gallery(scene: Scene) -> dict[str, Figure]:
    model = scene.model
    if not isinstance(model, Shows) or not (scene.images or scene.planar):
        return {}
    title = f"{model.name()} on {scene.data.name}"
    if scene.planar and not scene.images:
        x = scene.some(MAPPED // CLOUDS).x
        clouds = list(model.gallery(x, generator=scene.generator()).items())[:CLOUDS]
        return {"gallery": scatter({scene.split: x, **dict(clouds)}, title, _plane(scene))}
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


def _mapped(scene: Scene) -> dict[str, Figure]:
    if not isinstance(scene.model, Maps) or not (scene.images or scene.planar):
        return {}
    some: Any = scene.some(MAPPED if scene.planar else COLUMNS)
    title, shape = f"{scene.model.name()} on {scene.data.name}", None if scene.planar else scene.data.shape
    return {"mapping": mapping(some.x, some.y, scene.model.map, title, shape)}


def _filtered(scene: Scene) -> dict[str, Figure]:
    model = scene.model
    if not isinstance(model, HasFilters) or not scene.images:
        return {}
    filters, x = model.filters(), scene.some(COLUMNS).x
    title = f"{model.name()} on {scene.data.name}"
    scale = f"all on the scale of the largest weight {float(filters.abs().max()):.3g}"
    drawn = {"filters": filter_grid(filters, f"{title}: first filters, white is positive, {scale}")}
    if x.ndim == 4 and x.shape[1] == filters.shape[1]:
        drawn["responses"] = responses(x, filters, f"{title}: feature maps of its first filters, all on one scale")
    return drawn


def _updated(scene: Scene) -> dict[str, Figure]:
    model = scene.model
    if not isinstance(model, HasUpdates):
        return {}
    title = f"{model.name()} on {scene.data.name}: the update of each layer"
    return {"updates": update_norms(model.updates(), title)}


def _encoded(scene: Scene) -> dict[str, Figure]:
    model, batch = scene.model, scene.some(MAPPED)
    if not isinstance(model, Encodes) or not isinstance(batch, Labeled) or batch.y.is_floating_point():
        return {}
    shown = isinstance(scene.model, MapsExamples)  # among its own points
    if shown or int(batch.y.max()) >= TOLD_APART:
        return {}
    codes = codes_of(model, batch)
    if codes.shape[1] < 2:
        return {}
    title = f"{model.name()}: codes of {len(codes)} {scene.split} examples"
    return {"latent_map": latent_map(codes, batch.y, scene.data.labels, title)}


def _placed(scene: Scene) -> dict[str, Figure]:
    model, train = scene.model, scene.data.train
    if not isinstance(model, MapsExamples) or len(model.points) != len(train) or model.points.shape[1] != 2:
        return {}
    colored = isinstance(train, Labeled) and not train.y.is_floating_point() and int(train.y.max()) < TOLD_APART
    new = scene.some(MAPPED // 4 if scene.split != "train" else 0)
    places = in_chunks(lambda part: model.encode(part.x), new) if len(new) else model.points[:0]
    title = f"{model.name()} on {scene.data.name}: {counted(len(train), 'example', ',')}"
    title += f", and {len(new)} of {scene.split} with a black edge" if len(new) else ""
    classes = (train.y, new.y) if colored and isinstance(new, Labeled) else None
    return {"map": example_map(model.points, places, classes, scene.data.labels, title)}


PICTURES = (
    _classified, _decided, graphed, paired, graph_rows, sampled_graphs, _regressed, _completed, _sampled,
    _reconstructed, _gallery, _mapped, _filtered, _encoded, _placed, neighbored, _updated, attended, forecasted,
    filmed, continued, aligned, translated, captioned, illustrated, written, sounded, branched,
)  # fmt: skip

FILMED = (_sampled, _reconstructed, _decided, written, forecasted)
"""Pictures that are drawn in the course of a training, too."""

COMMON = (
    _regressed, _sampled, filmed, sampled_graphs, graphed, graph_rows, paired, _completed, _reconstructed, _encoded,
    _filtered, attended, _classified,
)  # fmt: skip
"""Pictures that many models have, those first that tell most."""

LAST_SHOWN = ("predictions", "mistakes", "confusion", "curves")
"""What tells least of a model."""
