"""Generative stochastic network (GSN)."""

from __future__ import annotations

from typing import Self

import torch
from torch import Generator, Tensor
from torch.distributions import Distribution

from deepcanon.core import Batch, Recipe, Sampler, Support, Terms, UsageError, draw
from deepcanon.core.checks import at_least, flat
from deepcanon.distributions.likelihoods import likelihood_layer
from deepcanon.nn.activations import Activation
from deepcanon.nn.dense import dense


class GenerativeStochasticNetwork(Sampler[Batch]):
    r"""A Markov chain of corruption and reconstruction, whose stationary distribution is that of the data.

    Also known as: generalized denoising autoencoder, walkback.

    .. math:: \tilde x_t \sim C(\tilde x \mid x_t), \qquad x_{t+1} \sim P_\theta(x \mid \tilde x_t) \qquad (1)

    The corruption C replaces each value by a uniform bit with some probability. If P is the posterior of the data given
    the corrupted ones, the data are stationary under the chain: one step of the two is one of Gibbs sampling of the
    pair :math:`(x, \tilde x)`. P is trained as a denoising autoencoder, with independent values given the corrupted
    ones.

    .. math:: E = -\frac1{NK} \sum_n \sum_{k=1}^K \log P_\theta(x_n \mid \tilde x_n^{(k)}) \qquad (2)

    The corrupted examples of the walkback, :math:`k > 1`, are those that the chain reaches by itself from
    :math:`x_n`: so the model learns to return from where it would stray, and spurious modes vanish.

    References:
        | Generalized Denoising Auto-Encoders as Generative Models (Bengio et al., 2013),
          https://arxiv.org/abs/1305.6663
        | Deep Generative Stochastic Networks Trainable by Backprop (Bengio et al., 2014),
          https://arxiv.org/abs/1306.1091

    Arguments:
        features: The number of binary values of an example.
        hidden: The widths of the hidden layers of the network.
        corruption: The probability with which the corruption replaces a value by a uniform bit.
        walkback: The number :math:`K` of steps of the chain from each example in training.
        chain_steps: The number of steps of the chain, from uniform bits, of a sample.
        activation: The activation of the hidden layers by name.
    """

    recipe = Recipe(epochs=100, lr=2e-3, batch_size=100)

    def __init__(
        self,
        features: int,
        hidden: tuple[int, ...] = (256, 256),
        corruption: float = 0.1,
        walkback: int = 3,
        chain_steps: int = 100,
        activation: Activation = "relu",
    ) -> None:
        super().__init__()
        at_least(1, features=features, walkback=walkback, chain_steps=chain_steps)
        if not 0 < corruption < 1:
            raise UsageError(f"corruption is a probability between 0 and 1 (got {corruption})")
        self.features = features
        self.corruption, self.walkback, self.chain_steps = corruption, walkback, chain_steps
        self.net = dense(features, features, hidden, activation=activation)
        self.likelihood = likelihood_layer("bernoulli")

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randint(0, 2, (32, 4), generator=torch.Generator().manual_seed(0))
        return cls(features=4, hidden=(8,), chain_steps=10), Batch(x.float())

    @property
    def support(self) -> Support:
        return "binary"

    def loss(self, batch: Batch) -> Terms:
        x = here = flat(batch.x, self.features)
        total = x.new_zeros(())
        for _ in range(self.walkback):
            denoised = self.denoise(self.corrupt(here))
            total = total - denoised.log_prob(x).mean()
            here = denoised.sample()
        return {"reconstruction": total / self.walkback}  # eq. (2)

    def corrupt(self, x: Tensor, *, generator: Generator | None = None) -> Tensor:
        """The examples with some of their values replaced by uniform bits."""
        chance, bit = torch.rand(2, *x.shape, generator=generator, dtype=x.dtype, device=x.device)
        return torch.where(chance < self.corruption, (bit < 0.5).to(x.dtype), x)

    def denoise(self, x: Tensor) -> Distribution:
        """The distribution of the examples given corrupted ones, flat."""
        return self.likelihood.distribution(self.net(flat(x, self.features)))

    def reconstruct(self, x: Tensor) -> Tensor:
        """The mean of the examples given corrupted ones, in the shape of ``x``."""
        return self.denoise(x).mean.reshape(x.shape)

    def forward(self, x: Tensor) -> Tensor:
        """The mean of the examples given corrupted ones, flat: (B, features)."""
        return self.denoise(x).mean

    @torch.no_grad()
    def step(self, x: Tensor, *, generator: Generator | None = None) -> Tensor:
        """One step of the chain from each example."""
        corrupted = self.corrupt(x, generator=generator)
        return draw(self.denoise(corrupted), generator).reshape(x.shape)  # eq. (1)

    def gallery(self, x: Tensor, *, generator: Generator | None = None) -> dict[str, Tensor]:
        """Rows of pictures: examples, and where the chain has come from them after some steps."""
        rows, here = {"example": x}, x
        for count in range(1, 1 + self.chain_steps):
            here = self.step(here, generator=generator)
            if count in (1, 3, 10, 30, 100):
                rows[f"step {count}"] = here
        return rows

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        like = next(self.parameters())
        x = torch.randint(0, 2, (n, self.features), generator=generator, device=like.device).to(like.dtype)
        for _ in range(self.chain_steps):
            x = self.step(x, generator=generator)
        return x
