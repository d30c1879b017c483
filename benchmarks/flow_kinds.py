"""Flows other than RealNVP compared with those of other libraries: training steps, samples, likelihoods.

    python benchmarks/flow_kinds.py --part autoregressive [--kinds maf iaf] [--features 8] [--rounds 20]
    python benchmarks/flow_kinds.py --part glow [--rounds 6]
    python benchmarks/flow_kinds.py --part continuous [--rounds 6]

``autoregressive``: MAF and IAF of five masked networks with two hidden layers of 64, as many parameters in all; a step
is a batch of 128, its gradient and the same fused Adam for all, or, as it comes, torch's default one for peers; then
1,000 samples. ``glow``: three scales of eight steps with 64 channels on 16 images of 1x32x32; normflows has no coupling
before a split. ``continuous``: log-likelihoods of 256 points of 4 features at a tolerance of 1e-5 with the exact trace;
torchdiffeq solves for the same field and weights, with the trace by autograd, row by row; zuko has a field of its own,
of as many hidden units. One thread, processor time; ours stands in the list
twice, as a control. Peers need
``pip install -c constraints.txt -e '.[bench,oracles]'``.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import math
import platform
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from side_by_side import interleaved, table
from torch import Tensor, nn

import deepcanon as dc
from deepcanon.core import Batch

STEPS, HIDDEN, BATCH, SAMPLES, PER_BLOCK = 5, (64, 64), 128, 1000, 3
SCALES, DEPTH, CHANNELS, SIDE, IMAGES = 3, 8, 64, 32, 16
POINTS, TOLERANCE, WIDTHS = 256, 1e-5, (32, 32, 32)


class Peer(NamedTuple):
    module: nn.Module
    log_prob: Callable[[Tensor], Tensor]
    sample: Callable[[], Any]


def ours(name: str, features: int) -> Peer:
    flow: Any = dc.find(name)(features=features, transforms=STEPS, hidden=HIDDEN)
    return Peer(flow, flow.log_prob, lambda: flow.sample(SAMPLES))


def of_zuko(name: str, features: int) -> Peer:
    import zuko

    orders = [torch.arange(features) if i % 2 == 0 else torch.arange(features).flip(0) for i in range(STEPS)]
    kind = zuko.flows.autoregressive.MaskedAutoregressiveTransform
    steps = [kind(features, hidden_features=HIDDEN, order=order) for order in orders]
    if name == "iaf":
        steps = [zuko.lazy.LazyInverse(step) for step in steps]
    normal = zuko.lazy.UnconditionalDistribution(
        zuko.distributions.DiagNormal, torch.zeros(features), torch.ones(features), buffer=True
    )
    flow = zuko.lazy.Flow(steps, normal)
    return Peer(flow, lambda x: flow().log_prob(x), lambda: flow().sample((SAMPLES,)))


def of_nflows(name: str, features: int) -> Peer:
    import nflows.distributions
    import nflows.flows
    import nflows.transforms as parts

    layers: list[nn.Module] = []
    for _ in range(STEPS):
        step = parts.MaskedAffineAutoregressiveTransform(features, HIDDEN[0], num_blocks=1, use_residual_blocks=False)
        layers += [parts.InverseTransform(step) if name == "iaf" else step, parts.ReversePermutation(features)]
    flow = nflows.flows.Flow(parts.CompositeTransform(layers), nflows.distributions.StandardNormal([features]))
    return Peer(flow, flow.log_prob, lambda: flow.sample(SAMPLES))


def training(module: nn.Module, loss: Callable[[], Tensor], fused: bool = True) -> Callable[[], None]:
    """A block of training steps."""
    adam = torch.optim.Adam(module.parameters(), lr=1e-4, fused=fused)

    def block() -> None:
        for _ in range(PER_BLOCK):
            adam.zero_grad()
            loss().backward()
            adam.step()

    return block


def nll(peer: Peer, x: Tensor) -> Tensor:
    return -peer.log_prob(x).mean()


def autoregressive(names: list[str], features: int, rounds: int) -> None:
    x = torch.randn(BATCH, features)
    makers: dict[str, Callable[[str, int], Peer]] = {"ours": ours, "zuko": of_zuko, "nflows": of_nflows, "again": ours}
    for name in names:
        peers = {each: make(name, features) for each, make in makers.items()}
        sizes = {each: sum(p.numel() for p in peer.module.parameters()) for each, peer in peers.items()}
        print(f"{name}, {features} features, parameters {sizes}")
        for words, fused in (("same Adam", True), ("as it comes", False)):
            blocks = {
                each: training(peer.module, partial(nll, peer, x), fused or each in ("ours", "again"))
                for each, peer in peers.items()
            }
            table(f"{PER_BLOCK} steps, {words}", interleaved(blocks, rounds, clock=time.process_time), "ours")
        draws: dict[str, Callable[[], Any]] = {each: torch.no_grad()(peer.sample) for each, peer in peers.items()}
        table(f"{SAMPLES} samples", interleaved(draws, rounds, clock=time.process_time), "ours")


def of_normflows() -> nn.Module:
    """The multi-scale Glow of the library's own example."""
    import normflows

    bases, flows, merges = [], [], []
    for i in range(SCALES):
        channels = 2 ** (SCALES + 1 - i)
        blocks = [normflows.flows.GlowBlock(channels, CHANNELS, split_mode="channel", scale=True) for _ in range(DEPTH)]
        flows.append([*blocks, normflows.flows.Squeeze()])
        depth = SCALES - i
        side = SIDE // 2**depth
        if i:
            merges.append(normflows.flows.Merge())
        bases.append(normflows.distributions.DiagGaussian((channels if i == 0 else channels // 2, side, side)))
    flow: nn.Module = normflows.MultiscaleFlow(bases, flows, merges, class_cond=False)
    return flow


def glow(rounds: int) -> None:
    x = torch.rand(IMAGES, 1, SIDE, SIDE)
    mine: Any = dc.find("glow")(channels=1, height=SIDE, width=SIDE, scales=SCALES, depth=DEPTH, hidden=CHANNELS)
    mine.prepare([Batch(x)])
    theirs: Any = of_normflows()
    theirs.log_prob(x, None)  # which initializes its ActNorms
    sizes = {
        "ours": sum(p.numel() for p in mine.parameters()),
        "normflows": sum(p.numel() for p in theirs.parameters()),
    }
    print(f"glow, {SCALES} scales of {DEPTH} steps, {IMAGES} images of 1x{SIDE}x{SIDE}, parameters {sizes}")
    blocks = {
        "ours": training(mine, lambda: -mine.log_prob(x).mean()),
        "normflows": training(theirs, lambda: -theirs.log_prob(x, None).mean()),
        "again": training(mine, lambda: -mine.log_prob(x).mean()),
    }
    table(f"{PER_BLOCK} steps, same Adam", interleaved(blocks, rounds, warm_up=1, clock=time.process_time), "ours")


def continuous(features: int, rounds: int) -> None:
    import torchdiffeq
    import zuko

    model: Any = dc.find("continuous_flow")(features=features, hidden=WIDTHS, trace="exact", tolerance=TOLERANCE)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)  # so that the field bends as a trained one does
    model.eval()
    x = torch.randn(POINTS, features)

    def dynamics(t: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            at = state[0].detach().requires_grad_()
            slope = model.field(t.expand(len(at)), at)
            rows = [torch.autograd.grad(slope[:, i].sum(), at, retain_graph=True)[0][:, i] for i in range(features)]
        return slope.detach(), torch.stack(rows).sum(0)

    def by_torchdiffeq() -> Tensor:
        start, times = (x, torch.zeros(POINTS)), torch.tensor([1.0, 0.0])
        z, log_det = torchdiffeq.odeint(dynamics, start, times, rtol=TOLERANCE, atol=TOLERANCE, method="dopri5")
        found: Tensor = -0.5 * z[-1].square().sum(1) - 0.5 * features * math.log(2 * math.pi) + log_det[-1]
        return found

    other = zuko.flows.CNF(features, hidden_features=WIDTHS, atol=TOLERANCE, rtol=TOLERANCE).eval()
    with torch.no_grad():
        gap = float((model.log_prob(x) - by_torchdiffeq()).abs().max())
    print(f"continuous flow, {POINTS} points of {features} features; torchdiffeq's log-densities differ by {gap:.1e}")
    blocks: dict[str, Callable[[], object]] = {
        "ours": torch.no_grad()(lambda: model.log_prob(x)),
        "torchdiffeq, same field": torch.no_grad()(by_torchdiffeq),
        "zuko, its own field": torch.no_grad()(lambda: other().log_prob(x)),
        "again": torch.no_grad()(lambda: model.log_prob(x)),
    }
    table(
        f"log_prob at a tolerance of {TOLERANCE:g}",
        interleaved(blocks, rounds, warm_up=1, clock=time.process_time),
        "ours",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--part", choices=["autoregressive", "glow", "continuous"], required=True)
    parser.add_argument("--kinds", nargs="+", default=["maf", "iaf"], help="of autoregressive flows")
    parser.add_argument("--rounds", type=int, default=20, help="interleaved blocks of each candidate")
    parser.add_argument("--features", type=int, help="8 of autoregressive flows, 4 of continuous ones")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, {platform.machine()}, 1 thread; {arguments.rounds} interleaved rounds")
    if arguments.part == "autoregressive":
        autoregressive(arguments.kinds, arguments.features or 8, arguments.rounds)
    elif arguments.part == "glow":
        glow(arguments.rounds)
    else:
        continuous(arguments.features or 4, arguments.rounds)


if __name__ == "__main__":
    main()
