"""Baselines of methods that learn features: linear probes on few labels, and one-shot classification of new classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Generator, Tensor

from deepcanon.core import Blueprint, Labeled, Model
from deepcanon.core.plural import counted
from deepcanon.data import Dataset
from deepcanon.data.split import stratified_order
from deepcanon.runs.label_baselines import Baseline, built, logistic_regression, measured, says
from deepcanon.train import Settings, fit
from deepcanon.train.randomness import kept

PER_CLASS = 10
"""The labels of each class that a linear probe learns from."""
SEEN = 2
"""The fewest classes that a Siamese network learns to tell apart, and that are left for it to tell apart later."""
DRAWS = 20
"""The draws of an example of each new class over which one-shot accuracies are means."""

Features = Callable[[Tensor], Tensor]


def probe_baselines(
    method: Model[Any],
    asked: Blueprint,
    data: Dataset[Any],
    settings: Settings,
    notify: Callable[[str], None] = lambda sentence: None,
) -> list[Baseline]:
    """Linear probes, logistic regressions on few labels, of the features learned, those at the start, and the inputs.

    Next to them stands the same network trained on these labels alone, its inputs perturbed as the method perturbs.
    """
    held, few = data.split("valid" if data.test is None else "test"), _few(data, settings["seed"])
    labels = counted(len(few.train), "label")
    notify(f"To compare, linear probes and supervised training on {labels} ...")
    perturb = cast("Callable[[Tensor], Tensor]", method.perturbed)

    def fresh(batch: Labeled, generator: Generator) -> Labeled:
        with kept():
            torch.manual_seed(int(torch.randint(2**62, (), generator=generator, device=generator.device)))
            return Labeled(perturb(batch.x.cpu()).to(batch.x), batch.y)

    untrained, supervised = (built(each, data, settings) for each in (asked, asked.changed(type(method).null)))  # type: ignore[attr-defined]
    fit(supervised, replace(few, fresh=fresh), quiet=True, **_as_long(data, few, settings))
    cases: dict[str, Features] = {
        "the inputs as they are": lambda x: x.flatten(1),
        "the same network untrained": _encoder(untrained),
        method.name(): _encoder(method),
    }
    found = [measured(f"supervised, same augmentation ({labels})", says(supervised), held)]
    return found + [_probe(f"{name} ({labels})", features, few, held) for name, features in cases.items()]


def one_shot_baselines(
    method: Model[Any],
    asked: Blueprint,
    data: Dataset[Any],
    settings: Settings,
    notify: Callable[[str], None] = lambda sentence: None,
) -> list[Baseline]:
    """One-shot accuracies: ``DRAWS`` times one held-out example of each class is given, and the others get the nearest.

    Among classes that a network has not seen, half of them, it is measured by a training of its own on the other half;
    among all classes, which the method has seen, by its own. The nearest is that by the method's distance or, for
    others, by the distance of pixels or of features.
    """
    seen = -(-data.sizes["classes"] // 2)
    held = data.split("valid" if data.test is None else "test")
    splits: Any = {name: _of(part, part.y < seen) for name, part in _splits(data).items()}
    fewer = replace(data, **splits)
    classes = counted(data.sizes["classes"], "class", plural="classes")
    notify(f"To compare, training on {seen} of {classes}: one-shot accuracy on the others ...")
    own, untrained, supervised = (
        built(each, data, settings)
        for each in (asked, asked, asked.changed(type(method).null))  # type: ignore[attr-defined]
    )
    for model in (own, supervised):
        fit(model, fewer, quiet=True, **settings)
    simple = {"nearest pixels": _nearest_pixels, "the same network untrained": untrained.eval().one_shot}
    learned = {"the same network, supervised": _nearest_features(supervised), method.name(): own.eval().one_shot}
    among = {
        "new classes": ({**simple, **learned}, _of(held, held.y >= seen)),
        "classes seen": ({**simple, method.name(): cast("Any", method).eval().one_shot}, held),
    }
    return [
        Baseline(f"{len(part.y.unique())} {which}: {name}", None, _one_shot(rule, part))
        for which, (rules, part) in among.items()
        for name, rule in rules.items()
    ]


def _few(data: Dataset[Any], seed: int) -> Dataset[Labeled]:
    """The data with a few labels of each class to learn from, or with those that they have, where these are few."""
    train, classes = data.train, data.sizes["classes"]
    rows = torch.from_numpy(stratified_order(train.y.cpu().numpy(), seed)[: PER_CLASS * classes])
    return replace(data, train=Labeled(train.x[rows], train.y[rows]), fresh=None)


def _as_long(data: Dataset[Any], few: Dataset[Any], settings: Settings) -> Settings:
    """The settings by which few examples are trained for as many steps as all of the data were."""
    if settings.get("steps") is not None:
        return settings
    size = settings["batch_size"]
    longer = -(-len(data.train) // size) / -(-len(few.train) // size)
    return cast("Settings", {**settings, "epochs": round(settings["epochs"] * longer)})


def _encoder(method: Any) -> Features:
    def features(x: Tensor) -> Tensor:
        device = next(method.parameters()).device
        with torch.no_grad():
            found: Tensor = method.eval().backbone(x.to(device)).cpu()
        return found

    return features


def _nearest_pixels(x: Tensor, given: Tensor) -> Tensor:
    return torch.cdist(x.flatten(1), given.flatten(1)).argmin(1)


def _nearest_features(method: Any) -> Callable[[Tensor, Tensor], Tensor]:
    features = _encoder(method)
    return lambda x, given: torch.cdist(features(x), features(given)).argmin(1)


def _probe(name: str, features: Features, few: Dataset[Labeled], held: Labeled) -> Baseline:
    read = logistic_regression(replace(few, train=Labeled(features(few.train.x), few.train.y)))
    return measured(name, lambda x: read(features(x)), held)


def _splits(data: Dataset[Any]) -> dict[str, Labeled]:
    return {name: part for name in ("train", "valid", "test") if (part := getattr(data, name)) is not None}


def _of(part: Labeled, rows: Tensor) -> Labeled:
    return part.select(rows.nonzero().squeeze(1))


def _one_shot(nearest: Callable[[Tensor, Tensor], Tensor], held: Labeled) -> float:
    generator, right = Generator().manual_seed(0), []
    classes = held.y.unique().cpu()
    for _ in range(DRAWS):
        order = torch.randperm(len(held.y), generator=generator)
        given = torch.stack([order[held.y.cpu()[order] == each][0] for each in classes])
        rest = torch.ones(len(held.y), dtype=torch.bool).index_fill(0, given, False)
        chosen = classes[nearest(held.x[rest], held.x[given]).cpu()]
        right.append((chosen == held.y.cpu()[rest]).double().mean())
    return float(torch.stack(right).mean())
