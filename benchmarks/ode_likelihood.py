"""Likelihood of digits by the probability flow, compared with the reference algorithm with scipy's RK45, one thread.

    python benchmarks/ode_likelihood.py [--rounds 5] [--steps 400]

The peer is the usual algorithm: the flow in time, its drift and its divergence along random signs by two calls of the
network, all examples as one state of scipy's RK45 with a tolerance of 1e-5. It runs on two networks: its own, which
reads the time times 1000, as Song et al. have it, and ours, in which the time turns more slowly; both are trained
alike. Ours solves for the angle, with steps of its own for each example. All have the same signs. The error of each is
the root mean square difference of its log-likelihoods from those of its own solver at a tolerance of 1e-7 in double
precision; ours runs at the largest tolerance by which its error is no larger than the peer's. Runs are interleaved;
medians of processor time. It takes a minute of it.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import copy
import math
import platform
import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.integrate import solve_ivp
from torch import Tensor

import deepcanon as dc
from deepcanon.models.scores.score_sde import CLOCK, ScoreSDE
from deepcanon.nn.probability_flow import random_signs, to_noise

DIGITS, FIRST = 100, 1e-3
PEER, TIGHT = 1e-5, 1e-7
"""The tolerances of the peer and of what errors are measured by."""
TOLERANCES = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 5e-5, 3e-5, 2e-5, 1e-5, 7e-6, 5e-6, 3e-6)


def ours(model: Any, x: Tensor, signs: Tensor, tolerance: float) -> Tensor:
    z, change = to_noise(model._flow, model._standard(x), model._last_angle(), signs, tolerance=tolerance)
    return normal(z) + change


def reference(model: Any, x: Tensor, signs: Tensor, tolerance: float) -> Tensor:
    """The log-likelihood of standardized data by the flow in time, without their units."""
    start, sde = model._standard(x), model.sde
    size = start.numel()

    def drift(t: Tensor, x: Tensor) -> Tensor:
        score = model._score(x, t.reshape(1, 1))
        found: Tensor = sde.drift(t) * x - 0.5 * sde.diffusion(t).square() * score
        return found

    def derivative(t: float, state: Any) -> Any:
        now = torch.tensor(t, dtype=start.dtype)
        points = torch.tensor(state[:size], dtype=start.dtype).reshape(start.shape)
        with torch.no_grad():
            slope = drift(now, points)
        with torch.enable_grad():
            points = points.requires_grad_()
            (row,) = torch.autograd.grad((drift(now, points) * signs[0]).sum(), points)
        return np.concatenate([slope.flatten().numpy(), (row * signs[0]).sum(-1).numpy()])

    state = np.concatenate([start.flatten().numpy(), np.zeros(len(x))])
    solved = solve_ivp(derivative, (FIRST, 1.0), state, rtol=tolerance, atol=tolerance, method="RK45").y[:, -1]
    end = torch.tensor(solved, dtype=start.dtype)
    scale = torch.hypot(sde.signal(torch.ones(())), sde.noise(torch.ones(())))
    found: Tensor = normal(end[:size].reshape(start.shape) / scale) - start.shape[1] * scale.log() + end[size:]
    return found


def normal(z: Tensor) -> Tensor:
    return -0.5 * (z.square() + math.log(2 * math.pi)).sum(-1)


class Fast(ScoreSDE):
    """The network of the reference: it reads times from 0 to 1000."""

    def _velocity(self, net: Any, y: Tensor, t: Tensor) -> Tensor:
        return super()._velocity(net, y, t * 1000 / CLOCK)


def trained(kind: type[ScoreSDE], data: Any, steps: int) -> ScoreSDE:
    torch.manual_seed(0)
    model = kind(features=64)
    dc.fit(model, data, steps=steps, quiet=True, evaluate=False)
    with torch.no_grad():
        torch.manual_seed(0)
        loss = sum(float(model.loss(data.test)["denoising"]) for _ in range(20)) / 20
    print(f"test loss of {kind.__name__}: {loss:.3f}", flush=True)
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved runs of each")
    parser.add_argument("--steps", type=int, default=400, help="training steps of the networks")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, {platform.machine()}, 1 thread, {arguments.rounds} interleaved rounds")
    data = dc.load_data("digits:dequantized")
    model, fast = (trained(kind, data, arguments.steps) for kind in (ScoreSDE, Fast))
    x = data.test.x[:DIGITS].flatten(1)
    signs = random_signs(x, 1, torch.Generator().manual_seed(0))

    def errors(each: Any, model: ScoreSDE, tolerances: Sequence[float]) -> dict[float, float]:
        right = each(copy.deepcopy(model).double(), x.double(), signs.double(), TIGHT)
        return {one: float((each(model, x, signs, one) - right).square().mean().sqrt()) for one in tolerances}

    found = errors(ours, model, TOLERANCES)
    for name, peer in (("its own network", fast), ("our network", model)):
        wanted = errors(reference, peer, [PEER])[PEER]
        chosen = next((one for one, error in found.items() if error <= wanted), TOLERANCES[-1])
        print(f"the reference on {name}: error {wanted:.2g} nats at a tolerance of {PEER:g}")
        print(f"deepcanon: error {found[chosen]:.2g} nats at a tolerance of {chosen:g}", flush=True)
        times: tuple[list[float], list[float]] = ([], [])
        for number in range(1 + arguments.rounds):
            runs = [(times[0], ours, model, chosen), (times[1], reference, peer, PEER)]
            for taken, each, network, tolerance in runs if number % 2 == 0 else runs[::-1]:
                start = time.process_time()
                each(network, x, signs, tolerance)
                taken.append(time.process_time() - start)
        ours_took, peers_took = (taken[1:] for taken in times)  # the first round warms up
        ratio = statistics.median(b / a for a, b in zip(ours_took, peers_took, strict=True))
        seconds = [statistics.median(taken) for taken in (ours_took, peers_took)]
        print(f"{DIGITS} digits: deepcanon {seconds[0]:.2f} s, reference {seconds[1]:.2f} s, faster by {ratio:.2f}x")


if __name__ == "__main__":
    main()
