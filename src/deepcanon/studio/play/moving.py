"""Points that move by a learned rule: Langevin dynamics by a score, and the reverse process of a diffusion model.

Each advances a little at a time, with the weights of that moment, so that the page shows them under way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from deepcanon.core import draw
from deepcanon.studio.play.looks import Scene
from deepcanon.studio.play.window import rounded

POINTS = 200
FRAMES = 60
"""In how many frames a reverse process reaches the data."""
REST = 25
"""For how many frames the end of a reverse process stays."""
LANGEVIN_STEP = 0.06
"""The step size of Langevin dynamics, in parts of the standard deviation of the data."""
LANGEVIN_STEPS = 3
"""Steps of Langevin dynamics for each frame."""
LANGEVIN_FRAMES = 240
"""After so many frames the points begin anew."""


class Moving:
    """Points on their way; ``advance`` moves them by one frame, and ``facts`` is what the page draws."""

    name = ""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.generator = torch.Generator().manual_seed(0)
        self.points = torch.zeros(POINTS, 2)
        self.frame = 0
        self.restart()

    def restart(self) -> None:
        """Put the points where they begin."""
        raise NotImplementedError

    def advance(self) -> None:
        """Move the points by one frame."""
        raise NotImplementedError

    def says(self) -> str:
        """Where the points are on their way, in words."""
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        classes = (torch.arange(POINTS) % self.scene.classes).tolist() if self.scene.conditional else []
        return {
            "kind": "moving",
            "name": self.name,
            "points": rounded(self.points),
            "says": self.says(),
            "classes": classes,
        }


class Langevin(Moving):
    r"""Unadjusted Langevin dynamics by the model's score.

    .. math:: x \leftarrow x + \tfrac{h^2}{2} \nabla \log p(x) + h \varepsilon, \; \varepsilon \sim N(0, I) \qquad (1)

    References:
        | Exponential convergence of Langevin distributions and their discrete approximations (Roberts and Tweedie,
          1996), https://doi.org/10.2307/3318418
    """

    name = "langevin"

    def restart(self) -> None:
        window, self.frame = self.scene.window, 0
        spread = torch.rand(POINTS, 2, generator=self.generator) - 0.5
        self.points = window.middle + window.side * spread
        self.size = LANGEVIN_STEP * float(self.scene.train.x.double().std(0).mean())

    def advance(self) -> None:
        if self.frame >= LANGEVIN_FRAMES:
            self.restart()
        model, h = self.scene.spread(POINTS), self.size
        for _ in range(LANGEVIN_STEPS):
            noise = torch.randn(POINTS, 2, generator=self.generator)
            score = model.score(self.points).detach().nan_to_num()
            push = 0.5 * h**2 * score
            longest = push.norm(dim=-1, keepdim=True).clamp_min(1e-12)
            push = push * (self.scene.window.side / 4 / longest).clamp_max(1.0)  # a score far out may know no measure
            self.points = self.points + push + h * noise  # eq. (1)
        self.frame += 1

    def says(self) -> str:
        return f"Langevin dynamics, step {self.frame * LANGEVIN_STEPS} of {LANGEVIN_FRAMES * LANGEVIN_STEPS}"


class Reverse(Moving):
    """The reverse process of a diffusion model, from noise at the last timestep to the data at timestep 0."""

    name = "reverse"

    def restart(self) -> None:
        model = self.scene.spread(POINTS)
        self.frame, self.t = 0, int(model.timesteps)
        self.state = draw(model.prior(), self.generator, (POINTS,))
        self.points = model.to_standard.inverse(self.state)

    def advance(self) -> None:
        if self.t == 0:
            self.frame += 1
            if self.frame > REST:
                self.restart()
            return
        model = self.scene.spread(POINTS)
        for _ in range(min(self.t, math.ceil(model.timesteps / FRAMES))):
            time = torch.full((POINTS,), self.t, dtype=torch.long)
            self.state = draw(model.reverse(self.state, time), self.generator)
            self.t -= 1
        # x_1 ... x_T live on the scale of standardized data; the last step gives data.
        self.points = self.state if self.t == 0 else model.to_standard.inverse(self.state)

    def says(self) -> str:
        return f"reverse process, timestep {self.t} of {self.scene.model.timesteps}"


def movements_of(scene: Scene) -> dict[str, Callable[[Scene], Moving]]:
    """The ways in which points can move by this model, that which shows most first."""
    found: dict[str, Callable[[Scene], Moving]] = {}
    if scene.has("reverse", "prior") and hasattr(scene.model, "to_standard") and hasattr(scene.model, "timesteps"):
        found["reverse"] = Reverse
    if scene.has("score"):
        found["langevin"] = Langevin
    return found


def first_movement(scene: Scene) -> str:
    """The movement that is shown until the user chooses another: none where samples come directly, without chains."""
    there = movements_of(scene)
    direct = scene.has("sample", "log_prob") and getattr(scene.model, "likelihood_kind", "") == "exact"
    direct = direct and not scene.has("energy") and not getattr(scene.model, "costly_likelihood", False)
    return "" if direct or not there else next(iter(there))
