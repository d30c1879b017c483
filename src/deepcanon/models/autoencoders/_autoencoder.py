"""Encoder, decoder and reconstruction error: the base class of the autoencoders."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor, nn

from deepcanon.core import Batch, Model, Terms
from deepcanon.core.checks import at_least, flat
from deepcanon.core.precision import full
from deepcanon.nn.activations import Activation
from deepcanon.nn.dense import dense
from deepcanon.nn.image_ends import ImageShape, image_ends
from deepcanon.nn.transposed import transposed


class Coder(Model[Batch]):
    r"""An encoder and a decoder, trained to minimize the squared reconstruction error.

    A leaf gives ``encode``, ``decode`` and the number of ``features``; one that reconstructs something else than it has
    encoded (a clean example from a noisy one), or regularizes the code, extends ``loss``.

    .. math:: E = \frac1N \sum_n \lVert x_n - d(e(x_n)) \rVert^2 \qquad (1)
    """

    features: int

    @abstractmethod
    def encode(self, x: Tensor) -> Tensor:
        """The code of each example, (B, latent)."""

    @abstractmethod
    def decode(self, z: Tensor) -> Tensor:
        """The decoded examples, flat, of codes of any leading shape: (..., features)."""

    def loss(self, batch: Batch) -> Terms:
        return {"reconstruction": self.error(self.encode(batch.x), batch.x).mean()}  # eq. (1)

    def error(self, z: Tensor, x: Tensor) -> Tensor:
        """The reconstruction error: the squared distance from each decoded code to its example, (B,)."""
        return (full(self.decode(z)) - flat(x, self.features)).square().sum(-1)

    def reconstruct(self, x: Tensor) -> Tensor:
        """The reconstruction of each example from its code, in the shape of ``x``."""
        return self.decode(self.encode(x)).reshape(x.shape)

    def forward(self, x: Tensor) -> Tensor:
        """The reconstruction, flat: (B, features)."""
        return self.decode(self.encode(x))


class DenseCoder(Coder):
    """An encoder and a decoder that are fully connected networks, the decoder with the layers in reverse.

    With ``tied`` weights the decoder has the transposed weights of the encoder, and biases of its own. With
    ``convolutions``, which have weights of their own on either side, images go through these before the encoder's fully
    connected layers, and after those of the decoder come the transposed ones.
    """

    def __init__(
        self,
        features: int,
        latent: int,
        hidden: tuple[int, ...],
        activation: Activation,
        tied: bool = False,
        convolutions: tuple[int, ...] = (),
        image: ImageShape = (None, None, None),
    ) -> None:
        super().__init__()
        at_least(1, features=features, latent=latent)
        self.features = features
        self.latent = latent
        down, up, units = image_ends(features, image, convolutions, activation)
        self.encoder = dense(units, latent, hidden, activation=activation)
        mirrored = hidden[::-1]
        self.decoder = transposed(self.encoder) if tied else dense(latent, units, mirrored, activation=activation)
        if convolutions:
            self.encoder, self.decoder = nn.Sequential(down, *self.encoder), self.decoder.append(up)

    def encode(self, x: Tensor) -> Tensor:
        code: Tensor = self.encoder(flat(x, self.features))
        return code

    def decode(self, z: Tensor) -> Tensor:
        x: Tensor = self.decoder(z)
        return x
