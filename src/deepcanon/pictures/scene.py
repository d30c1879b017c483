"""The scene of a run's pictures: a model with the data it is shown on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Generator, Tensor
from torch.distributions import Distribution

from deepcanon.core import Batch, Model, Videos, given_batch
from deepcanon.pictures.images import Limits

CHUNK = 1024
FROM_FILES = 1000
"""The number of examples that are read for the pictures where the data do not lie in memory."""


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
    def source(self) -> str: ...
    @property
    def preprocessing(self) -> Mapping[str, Any]: ...
    @property
    def vocabulary(self) -> tuple[str, ...]: ...
    @property
    def target_vocabulary(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Scene:
    """A model with the data it is shown on."""

    model: Model[Any]
    data: Data
    batch: Batch
    split: str
    limits: Limits
    seed: int

    @classmethod
    def of(cls, model: Model[Any], data: Data, seed: int) -> Scene:
        split = next((split for split in ("test", "valid") if getattr(data, split)), "train")
        batch: Batch = getattr(data, split)
        if not batch.in_memory:
            batch = spread(batch, FROM_FILES)
        device = next((t.device for t in (*model.parameters(), *model.buffers())), batch.x.device)
        batch = batch.to(device)
        x = batch.frames if isinstance(batch, Videos) else batch.x  # the padding may hold anything
        real = x.is_floating_point() and x.layout == torch.strided and x.numel() > 0
        limits = (float(x.min()), float(x.max())) if real else (0.0, 1.0)
        return cls(model, data, batch, split, limits, seed)

    @property
    def images(self) -> bool:
        return self.data.kind in ("images", "domains") and len(self.data.shape) in (2, 3)

    @property
    def planar(self) -> bool:
        points = self.batch.x.is_floating_point() and self.batch.x.shape[1:].numel() == 2
        return points and len(self.batch.inputs) == 1

    def feature(self, number: int) -> str:
        """The name of a feature at an axis, counted from 0, with its unit."""
        columns = self.data.preprocessing.get("columns", ()) if self.data.kind == "table" else ()
        plain = [each for each in columns if each["kind"] == "number" and not each["indicator"]]
        if columns and len(plain) == len(columns):
            bent = "arsinh, " if columns[number].get("bend") else ""
            return f"{columns[number]['name']} ({bent}standardized)"
        return f"feature {number + 1}{self._unit}"

    @property
    def target(self) -> str:
        """The name of what is predicted at an axis, with its unit."""
        known = self.data.preprocessing.get("target") if self.data.kind == "table" else None
        if known is None:
            return f"value{self._unit}"
        raw = known["mean"] == 0 and known["std"] == 1
        return known["name"] if raw else f"{known['name']} (standardized)"

    @property
    def _unit(self) -> str:
        standardized = "columns" in self.data.preprocessing or self.data.source.endswith("standardized")
        return " (standardized)" if self.data.kind == "table" and standardized else ""

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
        return spread(self.batch, count)


def spread(batch: Batch, count: int) -> Batch:
    """Examples spread evenly over the split, so that data sorted by class show all classes."""
    count = min(count, len(batch))
    return batch.select(torch.arange(count, device=batch.device) * len(batch) // count)


def in_chunks(output: Callable[[Batch], Tensor], batch: Batch) -> Tensor:
    """The outputs for all examples, computed in chunks that fit in memory."""
    order = torch.arange(len(batch), device=batch.x.device)
    parts = [order[start : start + CHUNK] for start in range(0, len(batch), CHUNK)]
    return torch.cat([output(batch.select(part)).cpu() for part in parts])


def codes_of(model: Any, batch: Batch) -> Tensor:
    """The codes of examples, (B, latent): of a posterior its mean."""

    def code(part: Batch) -> Tensor:
        z = given_batch(model, part).encode(part.x)
        return (z.mean if isinstance(z, Distribution) else z).flatten(1)

    return in_chunks(code, batch)
