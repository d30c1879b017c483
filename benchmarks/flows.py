"""RealNVP compared with the flows of other libraries: training steps and 1,000 samples, one thread.

    python benchmarks/flows.py [--rounds 40] [--features 2]
    python benchmarks/flows.py --quality [--data moons rings] [--seeds 40]

All have the same coupling layers and widths, and train on the same batches of 128. ``same Adam`` gives every flow the
same optimizer, ``as it comes`` gives ours the fused one that our trainer takes and peers torch's default. Blocks are
interleaved in one process; medians. ``--quality`` compares test likelihoods after the same training instead: 1,000
steps of Adam with a cosine, the rate of each chosen by validation data and other seeds. On these data one seed differs
from the next by some 0.02 nats, so that it takes many to tell flows apart. Peers need
``pip install -c constraints.txt -e '.[bench]'``.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import math
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import nflows.distributions
import nflows.flows
import nflows.transforms
import normflows
import torch
import zuko
from torch import Tensor, nn

import deepcanon as dc
from deepcanon.core import Batch
from deepcanon.nn.dense import dense
from deepcanon.optim import optimizer

COUPLINGS, HIDDEN, BATCH, SAMPLES, STEPS = 8, (64, 64), 128, 1000, 5
RATES = (2e-3, 5e-3, 1e-2)
CHOOSING, TESTING = 100, 7000
"""The first of the seeds by which a rate is chosen, and of those by which flows are compared."""
CHOICES = 10
"""By how many seeds a rate is chosen: few are noisier than the rates differ."""


class Peer(NamedTuple):
    module: nn.Module
    log_prob: Callable[[Tensor], Tensor]
    sample: Callable[[], Any]


def ours(features: int) -> Peer:
    flow: Any = dc.find("realnvp")(features=features, couplings=COUPLINGS, hidden=HIDDEN)
    return Peer(flow, flow.log_prob, lambda: flow.sample(SAMPLES))


def of_zuko(features: int) -> Peer:
    flow = zuko.flows.RealNVP(features, transforms=COUPLINGS, hidden_features=HIDDEN)
    return Peer(flow, lambda x: flow().log_prob(x), lambda: flow().sample((SAMPLES,)))


class _Contextless(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.net = dense(inputs, outputs, HIDDEN)

    def forward(self, x: Tensor, context: None = None) -> Tensor:
        output: Tensor = self.net(x)
        return output


def of_nflows(features: int) -> Peer:
    """With ActNorm, since its couplings alone cannot enlarge."""
    mask = torch.ones(features)
    mask[::2] = -1
    layers: list[nn.Module] = []
    for i in range(COUPLINGS):
        coupling = nflows.transforms.AffineCouplingTransform(mask if i % 2 == 0 else -mask, _Contextless)
        layers += [coupling, nflows.transforms.ActNorm(features)]
    transform = nflows.transforms.CompositeTransform(layers)
    flow = nflows.flows.Flow(transform, nflows.distributions.StandardNormal([features]))
    return Peer(flow, flow.log_prob, lambda: flow.sample(SAMPLES))


def of_normflows(features: int) -> Peer:
    base = normflows.distributions.base.DiagGaussian(features, trainable=False)
    half = features // 2
    layers: list[nn.Module] = []
    for _ in range(COUPLINGS):
        net = normflows.nets.MLP([features - half, *HIDDEN, 2 * half])
        layers += [normflows.flows.AffineCouplingBlock(net), normflows.flows.Permute(features, mode="swap")]
    flow = normflows.NormalizingFlow(base, layers)
    return Peer(flow, flow.log_prob, lambda: flow.sample(SAMPLES))


MAKERS = {"deepcanon": ours, "zuko": of_zuko, "nflows": of_nflows, "normflows": of_normflows}


def train(peer: Peer, optimizer: torch.optim.Optimizer, x: Tensor) -> None:
    for _ in range(STEPS):
        optimizer.zero_grad()
        (-peer.log_prob(x).mean()).backward()
        optimizer.step()


def timed(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def speed(features: int, rounds: int) -> None:
    x = torch.randn(BATCH, features)
    peers = {name: make(features) for name, make in MAKERS.items()}
    plain: dict[str, torch.optim.Optimizer] = {
        name: torch.optim.Adam(peer.module.parameters(), lr=1e-3) for name, peer in peers.items()
    }
    usual = dict(plain)
    usual["deepcanon"] = optimizer("adam", list(peers["deepcanon"].module.parameters()), 1e-3)
    works: dict[str, Callable[[str], Callable[[], None]]] = {
        "step, same Adam": lambda name: partial(train, peers[name], plain[name], x),
        "step, as it comes": lambda name: partial(train, peers[name], usual[name], x),
        f"{SAMPLES} samples": lambda name: torch.no_grad()(peers[name].sample),
    }
    times: dict[str, dict[str, list[float]]] = {work: {name: [] for name in peers} for work in works}
    for number in range(3 + rounds):
        for work, make in works.items():
            for name in peers if number % 2 == 0 else reversed(peers):
                seconds = timed(make(name))
                if number >= 3:  # the first rounds warm up
                    times[work][name].append(seconds)
    sizes = {name: sum(p.numel() for p in peer.module.parameters()) for name, peer in peers.items()}
    print(
        f"torch {torch.__version__}, {platform.machine()}, 1 thread; {features} features, {rounds} interleaved rounds"
    )
    for work, found in times.items():
        per = STEPS if work.startswith("step") else 1
        for name, blocks in found.items():
            ratio = statistics.median(a / b for a, b in zip(blocks, found["deepcanon"], strict=True))
            each = 1e3 * statistics.median(blocks) / per
            print(f"{work:18} {name:10} {sizes[name]:7,} parameters {each:7.2f} ms  deepcanon is {ratio:.2f}x as fast")


def quality(names: list[str], seeds: int, steps: int) -> None:
    """Test likelihoods after the same steps; each chooses its rate by validation data and seeds apart."""
    for data in map(dc.load_data, names):
        results = {}
        for name in ("deepcanon", "zuko", "nflows"):
            choosing = range(CHOOSING, CHOOSING + CHOICES)
            by_rate = {
                rate: statistics.mean(trained(name, data, steps, rate, seed, part="valid") for seed in choosing)
                for rate in RATES
            }
            rate = min(by_rate, key=lambda each: by_rate[each])
            found = [trained(name, data, steps, rate, seed, part="test") for seed in range(TESTING, TESTING + seeds)]
            results[name] = found
            ahead = statistics.mean(found) - statistics.mean(results["deepcanon"])
            error = math.hypot(_error(found), _error(results["deepcanon"]))
            print(
                f"{data.name:6} {name:10} rate {rate:g} of {', '.join(f'{r:g}: {v:.3f}' for r, v in by_rate.items())}; "
                f"test NLL {statistics.mean(found):.4f} +- {_error(found):.4f} over {seeds} seeds"
                + (f"; deepcanon is ahead by {ahead:.4f} +- {error:.4f}" if name != "deepcanon" else ""),
                flush=True,
            )


def _error(values: list[float]) -> float:
    """The standard error of their mean."""
    return statistics.stdev(values) / math.sqrt(len(values))


def trained(name: str, data: Any, steps: int, rate: float, seed: int, part: str) -> float:
    """The mean negative log-likelihood on this split of the data after so many steps of Adam with a cosine."""
    x = data.train.x
    torch.manual_seed(seed)
    peer = MAKERS[name](2)
    if name == "deepcanon":
        peer.module.prepare([Batch(x)])  # type: ignore[operator]
    adam = torch.optim.Adam(peer.module.parameters(), lr=rate, fused=True)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    random = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        adam.zero_grad()
        (-peer.log_prob(x[torch.randint(len(x), (BATCH,), generator=random)]).mean()).backward()
        adam.step()
        decay.step()
    with torch.no_grad():
        return -peer.log_prob(data.split(part).x).mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=40, help="interleaved blocks of each candidate")
    parser.add_argument("--features", type=int, default=2)
    parser.add_argument("--quality", action="store_true", help="compare test likelihoods instead of speed")
    parser.add_argument("--data", nargs="+", default=["moons", "rings"], help="of the comparison of likelihoods")
    parser.add_argument("--seeds", type=int, default=40, help="at least 2")
    parser.add_argument("--steps", type=int, default=1000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if arguments.quality:
        quality(arguments.data, arguments.seeds, arguments.steps)
    else:
        speed(arguments.features, arguments.rounds)


if __name__ == "__main__":
    main()
