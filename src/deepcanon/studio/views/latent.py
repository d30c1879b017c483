"""The space of a model's codes: a map to decode from, ways between two examples, and the film of a training."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from deepcanon.core import Labeled, UsageError, eval_mode, given_batch
from deepcanon.core.checks import at_least
from deepcanon.core.files import refuse_links
from deepcanon.core.roles import Decodes, Encodes
from deepcanon.pictures.points import Plane, plane_of
from deepcanon.pictures.scene import codes_of, spread
from deepcanon.studio.plain import bytes_of
from deepcanon.studio.views.looking import Look, look_into
from deepcanon.train.film import FOLDER, frames_in

MAPPED = 800
"""So many examples are on the map."""
MOST_STEPS = 32


def latent_map(run: Path, split: str) -> dict[str, Any]:
    """The codes of examples in a plane, with their classes: themselves, or their first two principal components."""
    look = look_into(run)
    batch, z, plane = _mapped(look, split)
    points = plane.of(z)
    classes = batch.y.tolist() if isinstance(batch, Labeled) and not batch.y.is_floating_point() else None
    return {
        "split": split,
        "axes": list(plane.names),
        "dimensions": z.shape[1],
        "points": points.tolist(),
        "numbers": _spread_numbers(look, split),
        "classes": classes if classes is not None and batch.y.ndim == 1 else None,
        "labels": list(look.data.labels),
        "decodes": isinstance(look.model, Decodes),
    }


def decoded(run: Path, split: str, points: Sequence[Sequence[float]], number: int = 0) -> list[dict[str, Any]]:
    """What the decoder makes of points of the map; of a conditional model, given what this example has."""
    look = look_into(run)
    if not 1 <= len(points) <= 1024 or any(len(point) != 2 for point in points):
        raise UsageError("points of the map are pairs of numbers, at most 1,024 at once")
    plane = _mapped(look, split)[2]
    return look.shown(decode(look, plane.codes(torch.tensor(points, dtype=torch.float64)), look.rows(split, [number])))


def interpolated(run: Path, split: str, first: int, second: int, steps: int = 9) -> dict[str, Any]:
    """The straight line between the codes of two examples: points of the map, and what the decoder makes of them."""
    at_least(2, steps=steps)
    if steps > MOST_STEPS:
        raise UsageError(f"a way has at most {MOST_STEPS} steps (got {steps})")
    look = look_into(run)
    a, b = codes(look, look.rows(split, [first, second])).double()
    ways = torch.linspace(0, 1, steps, dtype=torch.float64).unsqueeze(1)
    line = (1 - ways) * a + ways * b
    return {
        "shares": ways.flatten().tolist(),
        "points": _mapped(look, split)[2].of(line).tolist(),
        "examples": look.shown(decode(look, line, look.rows(split, [first]))),
        "ends": [look.example(split, number) for number in (first, second)],
    }


def codes(look: Look, batch: Any) -> Tensor:
    """The codes of examples, (B, latent)."""
    if not isinstance(look.model, Encodes):
        raise UsageError(f"{look.model.name()} has no encoder")
    with torch.no_grad(), eval_mode(look.model):
        return codes_of(look.model, batch)


def decode(look: Look, z: Tensor, context: Any) -> Tensor:
    """What the decoder makes of codes: of a likelihood its mean; of a conditional model, given the context of one."""
    if not isinstance(look.model, Decodes):
        raise UsageError(f"{look.model.name()} has no decoder")
    model, shape = look.model, _shape_of_codes(look, context)
    like = next((p for p in model.parameters() if p.is_floating_point()), torch.zeros(()))
    repeated = context.select(torch.zeros(len(z), dtype=torch.long))
    with torch.no_grad(), eval_mode(model):
        found = given_batch(model, repeated).decode(z.reshape(len(z), *shape).to(like))
    return found.mean if isinstance(found, Distribution) else found


def film(run: Path) -> dict[str, list[int]]:
    """The steps of the frames of each film of a run."""
    return frames_in(run / "pictures")


def frame(run: Path, name: str, step: int) -> bytes:
    """One frame, as a PNG; only those that the film lists are read."""
    if step not in film(run).get(name, []):
        raise UsageError("the film has no such frame")
    path = run / "pictures" / FOLDER / f"{name}-{step}.png"
    refuse_links(path.parent.parent, path.parent, path)
    return bytes_of(path)


def _shape_of_codes(look: Look, one: Any) -> torch.Size:
    with torch.no_grad(), eval_mode(look.model):
        z: Any = given_batch(look.model, one).encode(one.x)
    return (z.mean if isinstance(z, Distribution) else z).shape[1:]


def _spread_numbers(look: Look, split: str) -> list[int]:
    """The numbers of the examples that are on the map."""
    total = look.splits[split]
    count = min(MAPPED, total)
    return [place * total // count for place in range(count)]


@lru_cache(4)
def _mapped(look: Look, split: str) -> tuple[Any, Tensor, Plane]:
    look.rows(split, [0])
    batch = spread(getattr(look.data, split), MAPPED)
    z = codes(look, batch)
    return batch, z, plane_of(z)
