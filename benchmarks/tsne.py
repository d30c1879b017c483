"""t-SNE of the digits compared with scikit-learn's, exact and Barnes-Hut: divergence, trustworthiness, processor time.

    python benchmarks/tsne.py [--rounds 1] [--json results.json]

All three map the same 1,797 images at perplexity 30 with their defaults, one thread. The divergence is the exact one of
all pairs, by the same function for all.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import sklearn
import torch
from side_by_side import interleaved
from sklearn.manifold import TSNE as Peer
from sklearn.manifold import trustworthiness
from torch import Tensor

import deepcanon as dc
from deepcanon.core import Batch
from deepcanon.models.words.tsne import TSNE


def ours(x: Tensor) -> Tensor:
    torch.manual_seed(0)
    model = TSNE(features=x.shape[1], examples=len(x))
    dc.fit(model, dc.from_tensors(x), quiet=True, evaluate=False)
    return model.points.detach()


def theirs(x: Tensor, method: str) -> Tensor:
    return torch.tensor(Peer(method=method, random_state=0).fit_transform(x.numpy()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=1, help="interleaved maps of each candidate")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    data = dc.load_data("digits")
    x = torch.cat([split.x.flatten(1) for split in (data.train, data.valid, data.test) if split is not None])
    judge = TSNE(features=x.shape[1], examples=len(x))
    judge.prepare([Batch(x)])
    made: dict[str, Tensor] = {}
    makers: dict[str, Callable[[], Tensor]] = {
        "deepcanon": lambda: ours(x),
        "scikit-learn, exact": lambda: theirs(x, "exact"),
        "scikit-learn, Barnes-Hut": lambda: theirs(x, "barnes_hut"),
    }

    def keep(name: str) -> None:
        made[name] = makers[name]()

    candidates = {name: (lambda name=name: keep(name)) for name in makers}
    times = interleaved(candidates, arguments.rounds, warm_up=0, clock=time.process_time)
    versions = f"torch {torch.__version__}, scikit-learn {sklearn.__version__}"
    print(f"{versions}, {platform.machine()}, 1 thread; {len(x)} digits")
    numbers = {}
    for name, points in made.items():
        judge.points.data = points
        with torch.no_grad():
            divergence = float(judge.loss(Batch(x))["kl"])
        trust = float(trustworthiness(x.numpy(), points.numpy()))
        seconds = statistics.median(times[name])
        numbers[name] = {"kl": round(divergence, 4), "trustworthiness": round(trust, 4), "seconds": round(seconds, 2)}
        print(f"  {name:26} KL {divergence:.3f}, trustworthiness {trust:.4f}, {seconds:.1f} s")
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
