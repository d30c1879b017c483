"""Small models on our own tensor, one for each chapter of deep learning, as short as in a textbook.

Parameters have the shapes that torch's layers give them, so that weights can be carried over.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from deepcanon.tensor.elementwise import relu, sigmoid
from deepcanon.tensor.movement import split, stack
from deepcanon.tensor.networks import binary_cross_entropy, cross_entropy, gelu, max_pool2d, softmax
from deepcanon.tensor.nn import BatchNorm, Conv2d, Embedding, Generator, LayerNorm, Linear, Module, parameter
from deepcanon.tensor.tensor import Tensor, wrap


class ConvNet(Module):
    """A convolutional network: convolution, batch norm, ReLU and pooling, then a linear classifier.

    References:
        | Gradient-based learning applied to document recognition (LeCun et al., 1998),
          http://yann.lecun.com/exdb/publis/pdf/lecun-98.pdf
        | Batch normalization (Ioffe and Szegedy, 2015), https://arxiv.org/abs/1502.03167
    """

    def __init__(self, size: int, classes: int, filters: int, generator: Generator) -> None:
        self.conv = Conv2d(1, filters, 3, generator, padding=1)
        self.norm = BatchNorm(filters)
        self.head = Linear(filters * (size // 2) ** 2, classes, generator)

    def __call__(self, x: Tensor) -> Any:
        h = max_pool2d(relu(self.norm(self.conv(x))), 2)  # (N, filters, size / 2, size / 2)
        return self.head(h.reshape(len(h), -1))

    def loss(self, x: Tensor, y: Any) -> Any:
        return cross_entropy(self(x), y)


class LSTM(Module):
    r"""A long short-term memory (LSTM) language model: a recurrent network with gates.

    .. math::
        (i, f, g, o) = W_x x_t + W_h h_{t-1} + b, \quad
        c_t = \sigma(f) c_{t-1} + \sigma(i) \tanh(g), \quad h_t = \sigma(o) \tanh(c_t)

    References:
        | Long short-term memory (Hochreiter and Schmidhuber, 1997), https://doi.org/10.1162/neco.1997.9.8.1735
    """

    def __init__(self, vocab: int, hidden: int, generator: Generator) -> None:
        bound = 1 / math.sqrt(hidden)
        self.embed = Embedding(vocab, hidden, generator)
        self.w_x = parameter((4 * hidden, hidden), bound, generator, np.float64)
        self.w_h = parameter((4 * hidden, hidden), bound, generator, np.float64)
        self.b = parameter((4 * hidden,), bound, generator, np.float64)
        self.head = Linear(hidden, vocab, generator)

    def __call__(self, tokens: np.ndarray[Any, Any]) -> Any:
        x = self.embed(tokens)  # (N, T, hidden)
        h = c = wrap(np.zeros((len(tokens), x.shape[-1])))
        states = []
        for t in range(tokens.shape[1]):
            i, f, g, o = split(x[:, t] @ self.w_x.T + h @ self.w_h.T + self.b, 4, axis=1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            states.append(h)
        return self.head(stack(states, axis=1))

    def loss(self, tokens: np.ndarray[Any, Any]) -> Any:
        """The mean cross-entropy of each next token."""
        return cross_entropy(self(tokens[:, :-1]), tokens[:, 1:])


class AttentionBlock(Module):
    r"""A causal transformer block: attention, then a perceptron, each after a layer norm, with skip connections.

    .. math:: A = \mathrm{softmax}\big(Q K^\top / \sqrt{d} + M\big) V

    References:
        | Attention is all you need (Vaswani et al., 2017), https://arxiv.org/abs/1706.03762
    """

    def __init__(self, features: int, heads: int, generator: Generator) -> None:
        self.norm_1 = LayerNorm(features)
        self.qkv = Linear(features, 3 * features, generator)
        self.out = Linear(features, features, generator)
        self.norm_2 = LayerNorm(features)
        self.up = Linear(features, 4 * features, generator)
        self.down = Linear(4 * features, features, generator)
        self.heads = heads

    def attend(self, x: Tensor) -> Any:
        n, t, d = x.shape
        qkv = self.qkv(x).reshape(n, t, 3, self.heads, d // self.heads).transpose((2, 0, 3, 1, 4))
        q, k, v = qkv[0], qkv[1], qkv[2]  # (N, heads, T, d / heads)
        scores = q @ k.mT * (1 / math.sqrt(d // self.heads))
        seen = np.where(np.tri(t, dtype=np.bool_), scores, -np.inf)
        return self.out((softmax(seen) @ v).transpose((0, 2, 1, 3)).reshape(n, t, d))

    def __call__(self, x: Tensor) -> Any:
        x = x + self.attend(self.norm_1(x))
        return x + self.down(gelu(self.up(self.norm_2(x))))

    def loss(self, x: Tensor, target: Tensor) -> Any:
        d = self(x) - target
        return (d * d).mean()


class VAE(Module):
    r"""A variational autoencoder of binary data with a Gaussian latent; its loss is the negative ELBO, in nats.

    .. math::
        -\mathbb{E}_q \log p(x \mid z) + \mathrm{KL}, \qquad
        \mathrm{KL} = \tfrac12 \sum_d (\mu_d^2 + \sigma_d^2 - 1 - \log \sigma_d^2)

    References:
        | Auto-encoding variational Bayes (Kingma and Welling, 2014), https://arxiv.org/abs/1312.6114
    """

    def __init__(self, features: int, hidden: int, latent: int, generator: Generator) -> None:
        self.inward = Linear(features, hidden, generator)
        self.code = Linear(hidden, 2 * latent, generator)
        self.outward = Linear(latent, hidden, generator)
        self.pixels = Linear(hidden, features, generator)

    def __call__(self, x: Tensor, noise: np.ndarray[Any, Any]) -> tuple[Any, Any, Any]:
        mean, log_var = split(self.code(np.tanh(self.inward(x))), 2, axis=1)
        z = mean + np.exp(0.5 * log_var) * noise
        return self.pixels(np.tanh(self.outward(z))), mean, log_var

    def loss(self, x: Tensor, noise: np.ndarray[Any, Any]) -> Any:
        logits, mean, log_var = self(x, noise)
        reconstruction = binary_cross_entropy(logits, x) * x.shape[1]
        kl = 0.5 * (mean * mean + np.exp(log_var) - 1 - log_var).sum(axis=1).mean()
        return reconstruction + kl
