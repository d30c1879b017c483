"""Layers, optimizers and a training loop on our own tensor: a network from scratch with nothing but NumPy.

>>> generator = np.random.default_rng(0)
>>> network = Sequential(Linear(2, 8, generator), np.tanh, Linear(8, 2, generator))
>>> x = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
>>> optimizer = Adam(network.parameters(), lr=0.1)
>>> for _ in range(50):
...     loss = cross_entropy(network(tensor(x)), np.array([0, 1, 1, 0]))
...     optimizer.step(gradients(loss, network.parameters()))
>>> loss.item() < 0.1
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from deepcanon.tensor.autodiff import gradients
from deepcanon.tensor.networks import accuracy, conv2d, cross_entropy, embedding, layer_norm, linear
from deepcanon.tensor.operation import no_grad
from deepcanon.tensor.tensor import DType, Tensor, tensor, wrap

Generator = np.random.Generator


class Module:
    """A module: its parameters are the tensors and modules among its attributes, in the order of assignment."""

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """All parameters with the path of attributes that leads to each."""
        for name, value in vars(self).items():
            entries = enumerate(value) if isinstance(value, list | tuple) else [("", value)]
            for number, entry in entries:
                path = f"{prefix}{name}" + (f".{number}" if number != "" else "")
                if isinstance(entry, Tensor) and entry.requires_grad:
                    yield path, entry
                elif isinstance(entry, Module):
                    yield from entry.named_parameters(path + ".")

    def parameters(self) -> list[Tensor]:
        return [p for _, p in self.named_parameters()]

    def load(self, values: dict[str, Any]) -> None:
        """Overwrite the parameters with values by name; names and shapes must be the same."""
        own = dict(self.named_parameters())
        if own.keys() != values.keys():
            raise ValueError(f"expected values for {sorted(own)} (got {sorted(values)})")
        with no_grad():
            for name, p in own.items():
                p[...] = np.asarray(values[name]).reshape(p.shape)

    def __call__(self, *inputs: Any) -> Any:
        raise NotImplementedError


def parameter(shape: tuple[int, ...], bound: float, generator: Generator, dtype: DType) -> Tensor:
    """A parameter drawn between -bound and bound; torch draws its layers so, with bound 1 / sqrt(inputs)."""
    return wrap(generator.uniform(-bound, bound, shape).astype(dtype), requires_grad=True)


class Linear(Module):
    """A linear layer: x W^T + b, with inputs in rows and weights (outputs, inputs)."""

    def __init__(self, inputs: int, outputs: int, generator: Generator, dtype: DType = np.float64) -> None:
        bound = 1 / math.sqrt(inputs)
        self.weight = parameter((outputs, inputs), bound, generator, dtype)
        self.bias = parameter((outputs,), bound, generator, dtype)

    def __call__(self, x: Tensor) -> Any:
        return linear(x, self.weight, self.bias)


class Conv2d(Module):
    """A convolution of images with kernels (filters, channels, size, size)."""

    def __init__(
        self, channels: int, filters: int, size: int, generator: Generator, padding: int = 0, stride: int = 1
    ) -> None:
        bound = 1 / math.sqrt(channels * size * size)
        self.weight = parameter((filters, channels, size, size), bound, generator, np.float64)
        self.bias = parameter((filters,), bound, generator, np.float64)
        self.padding, self.stride = padding, stride

    def __call__(self, x: Tensor) -> Any:
        return conv2d(x, self.weight, self.bias, padding=self.padding, stride=self.stride)


class BatchNorm(Module):
    """Batch normalization: each channel of (N, C, ...) at mean 0 and variance 1; running statistics in eval mode."""

    def __init__(self, channels: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        self.weight = tensor(np.ones(channels), requires_grad=True)
        self.bias = tensor(np.zeros(channels), requires_grad=True)
        self.mean, self.var = np.zeros(channels), np.ones(channels)
        self.eps, self.momentum, self.training = eps, momentum, True

    def __call__(self, x: Tensor) -> Any:
        axes = tuple(i for i in range(x.ndim) if i != 1)
        shape = (-1,) + (1,) * (x.ndim - 2)
        mean: Any = self.mean.reshape(shape)
        var: Any = self.var.reshape(shape)
        if self.training:
            mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
            n = x.size // x.shape[1]
            self.mean += self.momentum * (mean.numpy().reshape(-1) - self.mean)
            self.var += self.momentum * (var.numpy().reshape(-1) * n / (n - 1) - self.var)
        return (x - mean) / np.sqrt(var + self.eps) * self.weight.reshape(shape) + self.bias.reshape(shape)


class LayerNorm(Module):
    """Layer normalization: each vector of the last axis at mean 0 and variance 1, then a learned scale and shift."""

    def __init__(self, features: int, eps: float = 1e-5) -> None:
        self.weight = tensor(np.ones(features), requires_grad=True)
        self.bias = tensor(np.zeros(features), requires_grad=True)
        self.eps = eps

    def __call__(self, x: Tensor) -> Any:
        return layer_norm(x, self.weight, self.bias, self.eps)


class Embedding(Module):
    """An embedding: a learned vector for each token."""

    def __init__(self, tokens: int, features: int, generator: Generator) -> None:
        self.weight = wrap(generator.normal(size=(tokens, features)), requires_grad=True)

    def __call__(self, indices: Any) -> Any:
        return embedding(self.weight, indices)


class Sequential(Module):
    """Modules and functions, one after the other."""

    def __init__(self, *steps: Callable[[Any], Any]) -> None:
        self.steps = steps

    def __call__(self, x: Any) -> Any:
        for step in self.steps:
            x = step(x)
        return x


class SGD:
    """Stochastic gradient descent with momentum, as in torch: v = mu v + g, then w -= lr v.

    With Nesterov's look-ahead w -= lr (g + mu v): w is then the point ahead, at which the derivative is taken.
    """

    def __init__(self, parameters: Sequence[Tensor], lr: float, momentum: float = 0.0, nesterov: bool = False) -> None:
        self.parameters, self.lr, self.momentum, self.nesterov = list(parameters), lr, momentum, nesterov
        self.velocities = [np.zeros_like(p.array) for p in self.parameters] if momentum else []

    def step(self, slopes: Sequence[Tensor]) -> None:
        with no_grad():
            for i, (p, slope) in enumerate(zip(self.parameters, slopes, strict=True)):
                g = slope.array
                if self.momentum:
                    v = self.velocities[i]
                    v *= self.momentum
                    v += g
                    g = g + self.momentum * v if self.nesterov else v
                p -= self.lr * g


class Adam:
    """The Adam optimizer: steps scaled by running means of the gradient and of its square, with bias correction."""

    def __init__(
        self,
        parameters: Sequence[Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self.parameters, self.lr, self.betas, self.eps, self.steps = list(parameters), lr, betas, eps, 0
        self.means = [np.zeros_like(p.array) for p in self.parameters]
        self.squares = [np.zeros_like(p.array) for p in self.parameters]

    def step(self, slopes: Sequence[Tensor]) -> None:
        self.steps += 1
        first, second = self.betas
        with no_grad():
            for p, m, s, slope in zip(self.parameters, self.means, self.squares, slopes, strict=True):
                g = slope.array
                m += (1 - first) * (g - m)
                s += (1 - second) * (g * g - s)
                unbiased = np.sqrt(s / (1 - second**self.steps)) + self.eps
                p -= self.lr / (1 - first**self.steps) * (m / unbiased)


def fit(
    network: Callable[[Tensor], Tensor],
    optimizer: SGD | Adam,
    x: np.ndarray[Any, Any],
    y: np.ndarray[Any, Any],
    *,
    epochs: int,
    batch_size: int,
    generator: Generator,
) -> list[float]:
    """Train a classifier by mini-batches, and return the loss of every step."""
    losses = []
    for _ in range(epochs):
        order = generator.permutation(len(x))
        for start in range(0, len(x), batch_size):
            rows = order[start : start + batch_size]
            loss = cross_entropy(network(wrap(x[rows])), y[rows])
            optimizer.step(gradients(loss, optimizer.parameters))
            losses.append(loss.item())
    return losses


def score(network: Callable[[Tensor], Tensor], x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> float:
    """The accuracy of a classifier."""
    with no_grad():
        return accuracy(network(wrap(x)), y)
