"""Our tensor compared with PyTorch eager, HIPS autograd and MyGrad: tiny operations, perceptron and convolution steps.

    python benchmarks/tensor.py

One thread, in one process, in turns; ratios are medians over pairs of neighbors.
"""

from __future__ import annotations

import os

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import gc
import importlib
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import autograd
import autograd.numpy as anp
import numpy as np
import torch
from side_by_side import Times, interleaved
from torch.nn import functional as F

import deepcanon.tensor as dt
from deepcanon.tensor.nn import SGD

mygrad: Any = importlib.import_module("mygrad")  # its annotations leave out what it exports

OPERATIONS = 1_000
GENERATOR = np.random.default_rng(0)
START, FACTOR = GENERATOR.uniform(0.5, 1.0, (2, 4))


def chain(x: Any, factor: Any, tanh: Callable[[Any], Any]) -> Any:
    """A thousand operations on four numbers: products, sums, hyperbolic tangents."""
    y = x
    for _ in range(OPERATIONS // 4):
        y = tanh(y * factor + 0.5) + x
    return y


def our_chain() -> tuple[float, float]:
    x, factor = dt.tensor(START, requires_grad=True), dt.tensor(FACTOR)
    begun = time.perf_counter()
    y = chain(x, factor, dt.tanh)
    half = time.perf_counter()
    dt.gradients(y, [x], np.ones(4))
    return half - begun, time.perf_counter() - half


def torch_chain() -> tuple[float, float]:
    x, factor, delta = torch.tensor(START, requires_grad=True), torch.tensor(FACTOR), torch.ones(4, dtype=torch.float64)
    begun = time.perf_counter()
    y = chain(x, factor, torch.tanh)
    half = time.perf_counter()
    torch.autograd.grad(y, [x], delta)
    return half - begun, time.perf_counter() - half


def autograd_chain() -> tuple[float, float]:
    begun = time.perf_counter()
    pull, _ = autograd.make_vjp(lambda x: chain(x, FACTOR, anp.tanh))(START)
    half = time.perf_counter()
    pull(np.ones(4))
    return half - begun, time.perf_counter() - half


def mygrad_chain() -> tuple[float, float]:
    x = mygrad.tensor(START)
    begun = time.perf_counter()
    y = chain(x, FACTOR, mygrad.tanh)
    half = time.perf_counter()
    y.backward()
    return half - begun, time.perf_counter() - half


CHAINS = {
    "deepcanon.tensor": our_chain,
    "PyTorch": torch_chain,
    "HIPS autograd": autograd_chain,
    "MyGrad": mygrad_chain,
}


def time_chains(rounds: int) -> tuple[Times, Times]:
    """Seconds forward and backward, in turns."""
    forward: Times = {name: [] for name in CHAINS}
    backward: Times = {name: [] for name in CHAINS}
    for number in range(rounds + 2):
        for name in CHAINS if number % 2 == 0 else reversed(list(CHAINS)):
            gc.collect()
            ahead, back = CHAINS[name]()
            if number >= 2:
                forward[name].append(ahead)
                backward[name].append(back)
    return forward, backward


SIZES = (784, 256, 256, 10)
PIXELS = GENERATOR.random((128, 784), dtype=np.float32)
LABELS = GENERATOR.integers(10, size=128)
WEIGHTS = [(GENERATOR.normal(size=(n, m)) / np.sqrt(m)).astype(np.float32) for m, n in pairwise(SIZES)]
BIASES = [np.zeros(n, np.float32) for n in SIZES[1:]]
RATE = 0.01


def our_step() -> Callable[[], float]:
    weights = [dt.tensor(w, requires_grad=True) for w in WEIGHTS]
    biases = [dt.tensor(b, requires_grad=True) for b in BIASES]
    parameters = [*weights, *biases]
    optimizer = SGD(parameters, RATE)
    x = dt.tensor(PIXELS)

    def step() -> float:
        h = x
        for i, (w, b) in enumerate(zip(weights, biases, strict=True)):
            h = dt.linear(h, w, b)
            h = dt.relu(h) if i < 2 else h
        loss = dt.cross_entropy(h, LABELS)
        optimizer.step(dt.gradients(loss, parameters))
        return float(loss)

    return step


def torch_step() -> Callable[[], float]:
    weights = [torch.tensor(w, requires_grad=True) for w in WEIGHTS]
    biases = [torch.tensor(b, requires_grad=True) for b in BIASES]
    optimizer = torch.optim.SGD([*weights, *biases], RATE)
    x, y = torch.tensor(PIXELS), torch.tensor(LABELS)

    def step() -> float:
        h = x
        for i, (w, b) in enumerate(zip(weights, biases, strict=True)):
            h = F.linear(h, w, b)
            h = F.relu(h) if i < 2 else h
        loss = F.cross_entropy(h, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def autograd_step() -> Callable[[], float]:
    parameters = [p.copy() for p in (*WEIGHTS, *BIASES)]

    def loss(p: Any) -> Any:
        h = PIXELS
        for i in range(3):
            h = anp.dot(h, p[i].T) + p[3 + i]
            h = anp.maximum(h, 0) if i < 2 else h
        h = h - anp.max(h, axis=1, keepdims=True)
        return anp.mean(anp.log(anp.sum(anp.exp(h), axis=1)) - h[anp.arange(128), LABELS])

    value_and_slopes = autograd.value_and_grad(loss)

    def step() -> float:
        value, slopes = value_and_slopes(parameters)
        for p, slope in zip(parameters, slopes, strict=True):
            p -= np.float32(RATE) * slope.astype(np.float32)
        return float(value)

    return step


def mygrad_step() -> Callable[[], float]:
    parameters = [mygrad.tensor(p) for p in (*WEIGHTS, *BIASES)]

    def step() -> float:
        h: Any = PIXELS
        for i in range(3):
            h = mygrad.matmul(h, parameters[i].T) + parameters[3 + i]
            h = mygrad.nnet.relu(h) if i < 2 else h
        loss = mygrad.nnet.losses.softmax_crossentropy(h, LABELS)
        loss.backward()
        for p in parameters:
            p.data -= np.float32(RATE) * p.grad
        return float(loss.data)

    return step


IMAGES = GENERATOR.random((32, 16, 28, 28), dtype=np.float32)
KERNELS = (GENERATOR.normal(size=(32, 16, 3, 3)) / 12).astype(np.float32)


def our_convolution() -> Callable[[], None]:
    x, w, b = (dt.tensor(a, requires_grad=True) for a in (IMAGES, KERNELS, np.zeros(32, np.float32)))

    def step() -> None:
        dt.gradients(dt.max_pool2d(dt.relu(dt.conv2d(x, w, b, padding=1)), 2).sum(), [x, w, b])

    return step


def torch_convolution() -> Callable[[], None]:
    x, w, b = (torch.tensor(a, requires_grad=True) for a in (IMAGES, KERNELS, np.zeros(32, np.float32)))

    def step() -> None:
        torch.autograd.grad(F.max_pool2d(F.relu(F.conv2d(x, w, b, padding=1)), 2).sum(), [x, w, b])

    return step


def report(title: str, times: Times, asked: dict[str, float], unit: float, name_of_unit: str) -> None:
    """Medians, how many times faster ours is by pairs of neighbors, and what was asked."""
    print(title)
    for name, seconds in times.items():
        factor = statistics.median(a / b for a, b in zip(seconds, times["deepcanon.tensor"], strict=True))
        wanted = f"(asked: {asked[name]:.2f})" if name in asked else ""
        median = statistics.median(seconds) * unit
        print(f"  {name:18} {median:9.3f} {name_of_unit}   ours is {factor:5.2f}x as fast {wanted}")


def main() -> None:
    torch.set_num_threads(1)
    forward, backward = time_chains(30)
    per_operation = 1e6 / OPERATIONS
    report("A chain of 1,000 operations, forward", forward, dict.fromkeys(CHAINS, 1.0), per_operation, "us/op")
    asked = {"PyTorch": 1.3, "HIPS autograd": 1.0, "MyGrad": 1.0}
    report("The same, backward", backward, asked, per_operation, "us/op")

    steps = {
        "deepcanon.tensor": our_step(),
        "PyTorch": torch_step(),
        "HIPS autograd": autograd_step(),
        "MyGrad": mygrad_step(),
    }
    losses = {name: step() for name, step in steps.items()}
    assert max(losses.values()) - min(losses.values()) < 1e-5, losses
    times = interleaved(steps, rounds=150)
    report(
        "A step of descent, 784-256-256-10, batch 128, float32",
        times,
        {"PyTorch": 0.85, "HIPS autograd": 2.0, "MyGrad": 1.1},
        1e3,
        "ms",
    )
    convolutions = {"deepcanon.tensor": our_convolution(), "PyTorch": torch_convolution()}
    report(
        "Convolution 16 to 32 channels, 3x3, 28x28, batch 32, rectifier and pooling, both ways",
        interleaved(convolutions, rounds=30),
        {"PyTorch": 1 / 3},
        1e3,
        "ms",
    )


if __name__ == "__main__":
    main()
