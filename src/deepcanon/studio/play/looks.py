"""Looks of a model of points in the plane, by the methods that it has: maps, fields, grids and samples.

A look is a function of the model and the window. Nothing here knows a model by its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from deepcanon.core import Model, SemiBatch, is_conditional
from deepcanon.core.batch import AnyBatch
from deepcanon.core.density import log_likelihood
from deepcanon.studio.play.window import Window, as_bytes, rounded

CELLS = 60
"""The side of a map, in cells."""
ARROWS = 17
"""The side of a field of arrows."""
LINES, BENDS = 13, 41
"""The lines of a grid in each direction, and the points along each; they reach from -REACH to REACH."""
REACH = 3.0
DRAWN = 256
"""How many samples are drawn."""
FEW = 400
"""Of how many unlabeled points the pseudo-labels are shown."""
DISCRETE = ("binary", "spins", "categorical", "gray levels")
SEED = 1

Look = Callable[["Scene"], dict[str, Any]]


class Scene:
    """A model with its data and the window that is shown; of a conditional model, in the context of one class."""

    def __init__(self, model: Model[Any], train: AnyBatch, classes: int, window: Window) -> None:
        self.model = model
        self.train = train
        self.classes = classes
        self.window = window
        self.given = 0

    @property
    def conditional(self) -> bool:
        """Whether the model is one for each class."""
        return is_conditional(self.model) and self.classes > 0

    def bound(self) -> Any:
        """The model, in the context of the class that is shown."""
        return self.model.given(self.given) if self.conditional else self.model  # type: ignore[operator]

    def spread(self, n: int) -> Any:
        """The model for n examples; of a conditional one, the classes take turns."""
        return self.model.given(torch.arange(n) % self.classes) if self.conditional else self.model  # type: ignore[operator]

    def has(self, *methods: str) -> bool:
        return all(callable(getattr(self.model, method, None)) for method in methods)


def looks_of(scene: Scene) -> dict[str, Look]:
    """The looks that the model has, by name; those that are drawn below others come first."""
    if scene.model.support in DISCRETE:
        return {}
    few = isinstance(scene.train, SemiBatch)
    exists: dict[str, tuple[bool, Look]] = {
        "classes": (scene.has("predict") and scene.classes > 0, classes_map),
        "mean": (scene.has("predict") and scene.classes == 0, mean_map),
        "discriminator": (scene.has("discriminate", "sample"), discriminator_map),
        "density": (scene.has("log_prob"), density_map),
        "energy": (scene.has("energy") and not scene.has("log_prob"), energy_map),
        "grid": (scene.has("to_latent", "to_data"), latent_grid),
        "score": (scene.has("score"), score_field),
        "reconstruction": (scene.has("reconstruct"), reconstruction_field),
        "fakes": (scene.has("discriminate", "sample"), fakes),
        "samples": (scene.has("sample") and not scene.has("discriminate"), samples),
        "pseudo_labels": (few and scene.has("predict"), pseudo_labels),
    }
    return {name: look for name, (there, look) in exists.items() if there}


def first_looks(scene: Scene, moving: str) -> list[str]:
    """The looks that are drawn until the user chooses others: what says most and takes no long computation.

    ``moving`` is the way in which points move, if any: these are samples already.
    """
    there = looks_of(scene)
    costly = moving == "reverse" or bool(getattr(scene.model, "costly_likelihood", False))
    maps = [name for name in ("density", "energy") if name in there and not costly]
    left_out = {
        "density": costly,
        "score": bool(maps),
        "samples": bool(moving),
        "reconstruction": bool(maps) or "samples" in there,
    }
    return [name for name in there if not left_out.get(name)]


def classes_map(scene: Scene) -> dict[str, Any]:
    """The most probable class of every cell, and how much more probable than chance it is."""
    confidence, label = scene.model.predict(scene.window.grid(CELLS), how="mean").max(-1)  # type: ignore[operator]
    chance = 1 / scene.classes
    return {
        "kind": "classes",
        "cells": CELLS,
        "label": as_bytes(label / 255),
        "confidence": as_bytes((confidence - chance) / (1 - chance)),
    }


def mean_map(scene: Scene) -> dict[str, Any]:
    """The predicted mean of the first target in every cell."""
    return _map(scene.model.predict(scene.window.grid(CELLS), how="mean")[:, 0], "the predicted mean")  # type: ignore[operator]


def density_map(scene: Scene) -> dict[str, Any]:
    """The density in every cell, in parts of the highest one."""
    model = scene.bound()
    drawn = getattr(model, "likelihood_kind", "exact") in ("lower bound", "estimate")
    few = getattr(model, "measured_samples", None) or 4
    generator = torch.Generator().manual_seed(SEED) if drawn else None
    found = log_likelihood(model, scene.window.grid(CELLS), samples=few if drawn else None, generator=generator)
    found = found.detach().nan_to_num(nan=-torch.inf, posinf=torch.inf)
    top = found.max()
    return {
        "kind": "density",
        "cells": CELLS,
        "values": as_bytes((found - top).exp()),
        "highest": rounded(top.reshape(1))[0],
        "likelihood": model.likelihood_kind,
    }


def energy_map(scene: Scene) -> dict[str, Any]:
    """The energy of every cell."""
    return _map(scene.bound().energy(scene.window.grid(CELLS)), "the energy")


def discriminator_map(scene: Scene) -> dict[str, Any]:
    """What the discriminator says of every cell: the larger the number, the more like data."""
    found = scene.bound().discriminate(scene.window.grid(CELLS))
    return {**_map(found - found.median(), "the discriminator's number, less its median"), "kind": "discriminator"}


def _map(values: Tensor, name: str) -> dict[str, Any]:
    """Values as shares between the lowest and the highest, the same on both sides of zero if they cross it."""
    values = values.detach().double()
    low, high = float(values.min()), float(values.max())
    if low < 0 < high:
        high = max(-low, high)
        low = -high
    span = max(high - low, 1e-12)
    return {
        "kind": "values",
        "cells": CELLS,
        "values": as_bytes((values - low) / span),
        "low": low,
        "high": high,
        "name": name,
    }


def latent_grid(scene: Scene) -> dict[str, Any]:
    """The lines of a square grid of noise, carried to the data by the flow, and the noise that the data come from."""
    place, along = torch.linspace(-REACH, REACH, LINES), torch.linspace(-REACH, REACH, BENDS)
    upright = torch.stack(torch.meshgrid(place, along, indexing="ij"), -1)
    noise = torch.cat([upright, upright.flip(-1)])
    model = scene.bound()
    carried = model.to_data(noise.reshape(-1, 2))
    points = scene.train.x[: shown_of(scene.train)]
    return {
        "kind": "grid",
        "lines": 2 * LINES,
        "noise": rounded(noise.reshape(-1, 2)),
        "data": rounded(carried),
        "latents": rounded(model.to_latent(points)[0]),
        "reach": REACH,
    }


def shown_of(train: AnyBatch, most: int = 1000) -> int:
    """How many training points are shown: the first ones."""
    return min(len(train.x), most)


def score_field(scene: Scene) -> dict[str, Any]:
    """The score, the gradient of the log-density, as arrows."""
    at = scene.window.grid(ARROWS)
    return _arrows(at, scene.bound().score(at).detach(), "the score: where the density grows")


def reconstruction_field(scene: Scene) -> dict[str, Any]:
    """From every place an arrow to its reconstruction."""
    at = scene.window.grid(ARROWS)
    model = scene.bound()
    return {**_arrows(at, model.reconstruct(at).reshape(at.shape) - at, "to the reconstruction"), "true": True}


def _arrows(at: Tensor, arrows: Tensor, name: str) -> dict[str, Any]:
    return {"kind": "arrows", "at": rounded(at), "arrows": rounded(arrows), "name": name}


def samples(scene: Scene) -> dict[str, Any]:
    """Samples from the same noise every time, so that they move with the weights."""
    drawn = scene.spread(DRAWN).sample(DRAWN, generator=torch.Generator().manual_seed(SEED))
    return {"kind": "samples", "points": rounded(drawn), "classes": _turns(scene)}


def fakes(scene: Scene) -> dict[str, Any]:
    """The generator's samples, and on each of them the gradient of the discriminator's number: where it is pushed."""
    model = scene.spread(DRAWN)
    drawn = model.sample(DRAWN, generator=torch.Generator().manual_seed(SEED))
    with torch.enable_grad():
        x = drawn.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(model.discriminate(x).sum(), x)
    return {"kind": "fakes", "points": rounded(drawn), "arrows": rounded(gradient), "classes": _turns(scene)}


def pseudo_labels(scene: Scene) -> dict[str, Any]:
    """The class that the model gives to unlabeled points by now, and the probability of it."""
    assert isinstance(scene.train, SemiBatch)
    probability, label = scene.model.predict(scene.train.unlabeled[:FEW], how="mean").max(-1)  # type: ignore[operator]
    return {"kind": "pseudo_labels", "labels": label.tolist(), "probability": rounded(probability)}


def _turns(scene: Scene) -> list[int]:
    return (torch.arange(DRAWN) % scene.classes).tolist() if scene.conditional else []
