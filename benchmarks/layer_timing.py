"""What the benchmarks of graph layers share: the random graph, a layer forwards and backwards, and the command line."""

from __future__ import annotations

import argparse
import json
import platform
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn

from deepcanon.core import Graph, Sparse

NODES, EDGES, WIDTH = 100_000, 1_000_000, 64
Numbers = dict[str, Any]
Run = Callable[[], object]


def random_graph(random: Generator) -> Graph:
    """An undirected graph whose edges join any two nodes."""
    half = torch.randint(NODES, (2, EDGES // 2), generator=random)
    return Graph(torch.cat([half, half.flip(0)], 1), NODES)


def as_csr(matrix: Sparse) -> Tensor:
    """The matrix as a CSR tensor of torch, which layers of PyTorch Geometric take."""
    starts, columns = matrix.pattern.starts.long(), matrix.pattern.columns.long()
    return torch.sparse_csr_tensor(starts, columns, matrix.values, matrix.shape, check_invariants=False)


def both_ways(layer: nn.Module, x: Tensor, edges: Any, pull: Tensor) -> Run:
    """A layer forwards, and backwards to its parameters, and to its input if that requires grad."""
    wanted = [*layer.parameters(), *([x] if x.requires_grad else [])]
    return lambda: torch.autograd.grad(layer(x, edges), wanted, pull)


def run_parts(parts: Mapping[str, Callable[[int], Numbers]], documentation: str | None, rounds: int) -> None:
    """Run all parts or the one that is asked for, and write their numbers if that is asked for."""
    parser = argparse.ArgumentParser(description=(documentation or "").partition("\n")[0])
    parser.add_argument("--part", choices=parts, help="only this part")
    parser.add_argument("--rounds", type=int, default=rounds, help="interleaved rounds of each candidate")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print(f"torch {torch.__version__}, {platform.machine()}, 1 thread, {asked.rounds} interleaved rounds")
    chosen = parts if asked.part is None else {asked.part: parts[asked.part]}
    numbers = {name: part(asked.rounds) for name, part in chosen.items()}
    if asked.json:
        asked.json.write_text(json.dumps(numbers, indent=1) + "\n")
