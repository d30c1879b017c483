"""Pictures of a run on graphs."""

from __future__ import annotations

from typing import Any

import torch
from matplotlib.figure import Figure

from deepcanon.core import GraphBatch, Graphs, LabeledGraphs, LabeledPairs
from deepcanon.core.plural import counted
from deepcanon.core.roles import Predicts, Samples
from deepcanon.pictures.edge_graph import pair_graph
from deepcanon.pictures.graph_grid import graph_captions, graph_grid, graph_sets
from deepcanon.pictures.graphs import MOST_LAID_OUT, class_graph
from deepcanon.pictures.matrices import confusion
from deepcanon.pictures.scene import Scene, in_chunks

SAMPLED = 12
"""How many graphs of the data, and how many samples, are shown."""


def graphed(scene: Scene) -> dict[str, Figure]:
    """One graph with the predicted classes of its nodes, and their confusion matrix."""
    model, batch = scene.model, scene.batch
    if not isinstance(batch, GraphBatch) or not isinstance(model, Predicts):
        return {}
    probabilities = model.predict(*batch.inputs, how="mean").cpu()
    true, predicted = (classes[batch.mask].cpu() for classes in (batch.y, probabilities.argmax(1).to(batch.y.device)))
    classes = probabilities.shape[1]
    matrix = torch.bincount(true * classes + predicted, minlength=classes**2).reshape(classes, classes)
    right = float((predicted == true).double().mean())
    words = f"Confusion on {scene.split}: accuracy {right:.2%} of {counted(len(true), 'node')}"
    graph = class_graph(
        batch.graph, batch.y, probabilities, training=scene.data.train.mask, counted=batch.mask,
        labels=scene.data.labels, split=scene.split, title=f"{model.name()} on {scene.data.name}",
    )  # fmt: skip
    return {"graph": graph, "confusion": confusion(matrix, scene.data.labels, words)}


def paired(scene: Scene) -> dict[str, Figure]:
    """A small graph with the predicted classes of pairs of its nodes: of edges, or of links."""
    model, batch = scene.model, scene.batch
    if not isinstance(batch, LabeledPairs) or not isinstance(model, Predicts) or batch.graph.nodes > MOST_LAID_OUT:
        return {}
    probabilities = model.predict(*batch.inputs, how="mean")
    graph = pair_graph(
        batch.graph, batch.pairs, batch.y, probabilities, labels=scene.data.labels, split=scene.split,
        title=f"{model.name()} on {scene.data.name}",
    )  # fmt: skip
    return {"pairs": graph}


def sampled_graphs(scene: Scene) -> dict[str, Figure]:
    """Graphs of the data, and samples of a distribution over graphs."""
    model, batch = scene.model, scene.some(SAMPLED)
    if not isinstance(model, Samples) or not isinstance(batch, Graphs):
        return {}
    drawn: Any = model.sample(SAMPLED, generator=scene.generator())
    title = f"{model.name()} on {scene.data.name}: {scene.split} graphs, and samples"
    return {"samples": graph_sets({scene.split: batch.graph, "sample": drawn}, title)}


def graph_rows(scene: Scene) -> dict[str, Figure]:
    """Graphs of every class with their predictions."""
    model, batch = scene.model, scene.batch
    if not isinstance(batch, LabeledGraphs) or not isinstance(model, Predicts) or batch.y.is_floating_point():
        return {}
    probabilities = in_chunks(lambda part: model.predict(*part.inputs, how="mean"), batch)
    shown, captions = graph_captions(probabilities, batch.y.cpu(), scene.data.labels)
    title = f"{model.name()} on {scene.data.name}: {scene.split} graphs of every class, and wrong predictions"
    return {"graphs": graph_grid(batch.select(shown.to(batch.device)), captions, title)}
