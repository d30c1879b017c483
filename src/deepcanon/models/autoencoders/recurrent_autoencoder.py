"""Recurrent autoencoder."""

from __future__ import annotations

from typing import Literal, Self, get_args

import torch
from torch import Tensor, nn

from deepcanon.core import Batch, Recipe, UsageError
from deepcanon.core.checks import at_least, flat, one_of
from deepcanon.models.autoencoders._autoencoder import Coder
from deepcanon.models.recurrent._recurrent import fitting_precision
from deepcanon.nn.gru import gru
from deepcanon.nn.lstm import lstm
from deepcanon.nn.rnn import rnn

CellName = Literal["lstm", "gru", "tanh", "identity"]


class RecurrentAutoencoder(Coder):
    r"""An autoencoder of sequences: one recurrent network reads a sequence into a code, another writes it from there.

    Also known as: LSTM autoencoder, RNN encoder-decoder.

    .. math:: h_t = r(h_{t-1}, x_t), \quad t = 1, \dots, T, \qquad z = A h_T + a \qquad (1)

    .. math:: s_t = r'(s_{t-1}, z), \qquad \hat x_t = C s_t + c \qquad (2)

    The decoder gets the code at every step, and nothing else, so that all it knows of the sequence went through z. An
    example is a sequence of T frames, its values in their order: those of a gray image are its rows.

    With the cell ``identity`` both networks are linear, and so is the reconstruction of the whole sequence: it can be
    no better than the projection of PCA on all T frames side by side, and with enough units it is that projection.

    References:
        | Unsupervised Learning of Video Representations using LSTMs (Srivastava et al., 2015),
          https://arxiv.org/abs/1502.04681
        | Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine Translation (Cho et al.,
          2014), https://arxiv.org/abs/1406.1078

    Arguments:
        features: The number of values of a whole sequence.
        frames: The number :math:`T` of frames into which these are cut.
        latent: The dimension of the code :math:`z`.
        units: The number of units of either recurrent network.
        cell: The recurrence :math:`r`: ``lstm``, ``gru``, a plain network with ``tanh``, or a linear one, ``identity``.
    """

    recipe = Recipe(lr=5e-3, schedule="cosine", batch_size=64, epochs=60)

    def __init__(
        self,
        features: int,
        frames: int = 8,
        latent: int = 8,
        units: int = 64,
        cell: CellName = "gru",
    ) -> None:
        super().__init__()
        at_least(1, features=features, frames=frames, latent=latent, units=units)
        one_of(get_args(CellName), cell=cell)
        if features % frames:
            raise UsageError(f"{features} values cannot be cut into {frames} frames of the same size: choose a divisor")
        self.features, self.frames, self.latent = features, frames, latent
        self.reader, self.to_code = _layers(cell, features // frames, units), nn.Linear(units, latent)
        self.writer, self.to_frame = _layers(cell, latent, units), nn.Linear(units, features // frames)

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 4, 2, generator=torch.Generator().manual_seed(0))
        return cls(features=8, frames=4, latent=5, units=12), Batch(x)

    def encode(self, x: Tensor) -> Tensor:
        frames = flat(x, self.features).unflatten(-1, (self.frames, -1)).transpose(0, 1)  # (T, B, values)
        with fitting_precision(x.device):
            read: Tensor = self.reader(frames)[0]
            code: Tensor = self.to_code(read[-1])  # eq. (1)
        return code

    def decode(self, z: Tensor) -> Tensor:
        rows = z.reshape(-1, self.latent)
        with fitting_precision(z.device):
            written: Tensor = self.writer(rows.expand(self.frames, -1, -1))[0]  # (T, B, units)
            frames: Tensor = self.to_frame(written)  # eq. (2)
        return frames.transpose(0, 1).reshape(*z.shape[:-1], self.features)


def _layers(cell: CellName, inputs: int, units: int) -> nn.Module:
    """One recurrent layer of this kind."""
    if cell == "lstm":
        return lstm(inputs, units, 1, dropout=0.0, coupled=False, peepholes=False, memory=None)
    if cell == "gru":
        return gru(inputs, units, 1, dropout=0.0, reset="after", memory=None)
    return rnn(inputs, units, 1, dropout=0.0, nonlinearity=cell)
