"""Stacked autoencoder."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Self

import torch
from torch import Tensor, nn

from deepcanon.core import Batch, Descend, Recipe, Terms, Turn, UsageError
from deepcanon.core.checks import flat
from deepcanon.core.precision import full
from deepcanon.models.autoencoders._autoencoder import DenseCoder
from deepcanon.nn.activations import Activation


class StackedAutoencoder(DenseCoder):
    r"""A deep autoencoder with greedy layer-wise pre-training, followed by fine-tuning of all layers.

    Also known as: deep autoencoder, SAE.

    .. math:: h_0 = x, \quad h_l = f(W_l h_{l-1} + b_l), \qquad
              \min_{W_l, b_l, V_l, c_l} \frac1N \sum_n \lVert h_{l-1} - f(V_l h_l + c_l) \rVert^2 \qquad (1)

    While layer l is trained by (1), the layers before it stay frozen. Then the stacked layers are one deep autoencoder,
    and all are fine-tuned together to reconstruct x. The code and the output have no f. From a random initialization a
    deep net of sigmoid units learns little, since its gradients vanish; in (1) they pass through two layers only.

    With tied weights and without activation fine-tuning is not needed: the first layer finds the subspace of PCA, and
    each further one the directions of largest variance inside the subspace of the one before it.

    References:
        | Reducing the Dimensionality of Data with Neural Networks (Hinton and Salakhutdinov, 2006),
          https://doi.org/10.1126/science.1127647
        | Greedy Layer-Wise Training of Deep Networks (Bengio et al., 2006),
          https://papers.nips.cc/paper/2006/hash/5da713a690c067105aeb2fae32403405-Abstract.html

    Arguments:
        features: The dimension of the data.
        latent: The dimension of the code.
        hidden: The widths of the encoder's hidden layers; the decoder has them in reverse.
        activation: The activation of the hidden layers by name.
        tied: Whether the decoder's weights are the encoder's, transposed.
        greedy: The share of the training that is layer-wise pre-training; with 0 it is a plain deep autoencoder.
    """

    recipe = Recipe(lr=1e-2, batch_size=64, epochs=100)

    def __init__(
        self,
        features: int,
        latent: int = 8,
        hidden: tuple[int, ...] = (128, 64, 32),
        activation: Activation = "sigmoid",
        tied: bool = False,
        greedy: float = 0.5,
    ) -> None:
        if not 0 <= greedy < 1:
            raise UsageError(f"greedy is a share of the training, from 0 to below 1 (got {greedy})")
        super().__init__(features, latent, hidden, activation, tied)
        self.greedy = greedy

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
        return cls(features=4, latent=2, hidden=(8, 8)), Batch(x)

    def turns(self) -> Sequence[Turn[Batch]]:
        layers = len(self.hparams["hidden"]) + 1
        ends = [self.greedy * layer / layers for layer in range(layers + 1)]
        return [
            *(
                Descend(
                    partial(self.layer_loss, layer), [p for part in self.pair(layer) for p in part.parameters()],
                    name=f"layer_{layer + 1}", share=(ends[layer], ends[layer + 1]),
                )
                for layer in range(layers)
            ),
            Descend(self.loss, self.parameters(), name="all", share=(self.greedy, 1.0)),
        ]  # fmt: skip

    def pair(self, layer: int) -> tuple[nn.Module, nn.Module]:
        """A layer of the encoder and its counterpart in the decoder, each with its activation, if it has one."""
        down, up = 2 * layer, len(self.decoder) - 1 - 2 * layer
        return self.encoder[down : down + 2], self.decoder[up : up + 2]

    def layer_loss(self, layer: int, batch: Batch) -> Terms:
        """The error of a layer in reconstructing the output of the layers before it."""
        with torch.no_grad():
            below: Tensor = self.encoder[: 2 * layer](flat(batch.x, self.features))
        encoder, decoder = self.pair(layer)
        return {f"layer_{layer + 1}": (full(decoder(encoder(below))) - below).square().sum(-1).mean()}  # eq. (1)
