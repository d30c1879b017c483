"""WaveNet."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from deepcanon.core import Recipe, Sequences
from deepcanon.core.checks import at_least
from deepcanon.models._language_model import LanguageModel


class Queues(list[Tensor]):
    """The last inputs of each layer, which it will read again, (B, (kernel - 1) * dilation, channels)."""

    def select(self, rows: Tensor) -> Self:
        """Those of these rows."""
        return type(self)(queue.index_select(0, rows) for queue in self)


class DilatedLayer(nn.Module):
    """A gated dilated causal convolution, which reads on from a queue."""

    def __init__(self, channels: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.kernel, self.dilation = kernel, dilation
        self.past = (kernel - 1) * dilation
        self.convolution = nn.Linear(kernel * channels, 2 * channels)  # W_f and W_g

    def forward(self, x: Tensor, queue: Tensor) -> tuple[Tensor, Tensor]:
        """The outputs z, (B, t, channels), and the queue after them."""
        window = torch.cat([queue, x], 1)
        delayed = [window[:, i * self.dilation : i * self.dilation + x.shape[1]] for i in range(self.kernel)]
        filtered, gate = self.convolution(torch.cat(delayed, 2)).chunk(2, 2)
        return filtered.tanh() * gate.sigmoid(), window[:, window.shape[1] - self.past :]  # eq. (1)


class WaveNet(LanguageModel[Sequences]):
    r"""A causal convolutional model of waveforms, or any tokens: dilated layers see exponentially far back.

    Also known as: dilated causal convolutional network.

    .. math:: z_t = \tanh\Bigl(\sum_{i=0}^{k-1} W_{f,i}\, h_{t - i d}\Bigr) \odot
              \sigma\Bigl(\sum_{i=0}^{k-1} W_{g,i}\, h_{t - i d}\Bigr) \qquad (1)

    .. math:: h_t \leftarrow h_t + W_r z_t \qquad (2)

    .. math:: p(x_{t+1} \mid x_{\le t}) = \mathrm{softmax}(V_2\, \mathrm{relu}(V_1\, \mathrm{relu}(s_t))), \qquad
              s_t = \sum_{\text{layers}} W_s z_t \qquad (3)

    Every layer has weights of its own, and a skip connection to s. The first h is the embedding of the tokens, before
    the first of them it is zero, and biases are left out of the formulas. The dilation d doubles from layer to layer
    and begins anew in each stack, so that the receptive field is :math:`1 + (k - 1) \sum d` tokens. The mu-law makes
    tokens of audio, as in the data set ``waveform``. To sample, each layer keeps what it will read again in a queue, so
    that a token costs the same after any number of others.

    Waves whose noise is known, in a minute on one core, next to some that the model has made::

        deepcanon train wavenet

    References:
        | WaveNet: A Generative Model for Raw Audio (van den Oord et al., 2016), https://arxiv.org/abs/1609.03499
        | Fast Wavenet Generation Algorithm (Le Paine et al., 2016; the queues), https://arxiv.org/abs/1611.09482

    Arguments:
        vocab: The number of different tokens.
        channels: The width of h and z.
        skip: The width of s, to which the skip connections lead.
        layers: The number of layers of a stack, with dilations from 1 to 2 to the power of ``layers - 1``.
        stacks: The number of stacks.
        kernel: The number of inputs k that a convolution reads.
        output: The output layer. Where the vocabulary is large, training costs less with hierarchical, importance,
            adaptive, nce or negative, which take options: hierarchical:tree=balanced, nce:samples=128.
    """

    recipe = Recipe(lr=1e-2, schedule="cosine:warmup=50", batch_size=16, epochs=8, clip="norm:1.0")

    default_data = "waveform"

    def __init__(
        self,
        vocab: int,
        channels: int = 32,
        skip: int = 64,
        layers: int = 7,
        stacks: int = 1,
        kernel: int = 2,
        output: str = "softmax",
    ) -> None:
        super().__init__(vocab)
        at_least(1, channels=channels, skip=skip, layers=layers, stacks=stacks)
        at_least(2, kernel=kernel)
        self.channels = channels
        self.embedding = nn.Embedding(vocab, channels)
        dilations = [2**layer for _ in range(stacks) for layer in range(layers)]
        self.layers = nn.ModuleList(DilatedLayer(channels, kernel, dilation) for dilation in dilations)
        self.residuals = nn.ModuleList(nn.Linear(channels, channels) for _ in dilations[1:])  # W_r
        self.skip = nn.Linear(len(dilations) * channels, skip)  # W_s of all layers
        self.inner, self.head = nn.Linear(skip, skip), self._head(output, skip)  # V_1, V_2
        self.receptive_field = 1 + (kernel - 1) * sum(dilations)

    @classmethod
    def example(cls) -> tuple[Self, Sequences]:
        start = torch.arange(16).unsqueeze(1)
        x = (start + torch.arange(9) * (1 + start % 2)) % 5
        return cls(vocab=5, channels=4, skip=6, layers=2), Sequences(x, 3 + torch.arange(16) % 7)

    def read(self, tokens: Tensor, state: Queues | None) -> tuple[Tensor, Queues]:
        """The logits of the next token after each of the tokens (B, t), and the queues after the last of them."""
        h = self.embedding(tokens)  # (B, t, channels)
        if state is None:
            state = Queues(h.new_zeros(len(h), layer.past, self.channels) for layer in self.layers)
        after, outputs = Queues(), []
        for layer, residual, before in zip(self.layers, [*self.residuals, None], state, strict=True):
            z, queue = layer(h, before)
            outputs.append(z)
            after.append(queue)
            if residual is not None:  # after the last layer, nothing reads h any more
                h = h + residual(z)  # eq. (2)
        logits: Tensor = self.head(self.inner(self.skip(torch.cat(outputs, 2)).relu()).relu())  # eq. (3)
        return logits, after
