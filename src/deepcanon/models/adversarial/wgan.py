"""Wasserstein GAN (WGAN)."""

from __future__ import annotations

from typing import Literal, Self, get_args

import torch
from torch import Tensor

from deepcanon.core import Batch, Recipe, Terms, UsageError
from deepcanon.core.checks import flat, one_of
from deepcanon.core.precision import full
from deepcanon.losses.energy_distance import energy_distance
from deepcanon.models.adversarial._game import NoiseGame, dense_sides

Penalty = Literal["gradient", "clip"]
STRENGTHS: dict[str, float] = {"gradient": 1.0, "clip": 0.1}
"""Strengths that do well at unit scale within some thousand steps; the papers have 10 and 0.01."""


class WGAN(NoiseGame[Batch]):
    r"""A generator trained against a critic that estimates the earth mover's distance from samples to data.

    Also known as: WGAN-GP, Wasserstein GAN with gradient penalty.

    By Kantorovich-Rubinstein duality the distance is a supremum over functions whose slope is nowhere above 1.

    .. math:: W_1(p, q) = \sup_{\lVert f \rVert_L \le 1} E_p f - E_q f \qquad (1)

    The critic f, which is the part ``discriminator``, maximizes the difference, and the generator minimizes it. Either
    a penalty draws the critic's slope to 1 on the lines between data and samples (``gradient``), or its weights are
    clipped to :math:`[-c, c]` after each step (``clip``), which bounds the slope by a number that is not known.

    .. math:: \lambda E \left( \lVert \nabla f(\hat x) \rVert - 1 \right)^2, \quad
              \hat x = \varepsilon x + (1 - \varepsilon) G(z), \quad \varepsilon \sim U(0, 1) \qquad (2)

    The metric ``wasserstein`` divides what the critic finds on a batch by its steepest slope between any two points of
    it, so that it is a lower bound of the distance from the batch to as many samples, whatever the critic.

    .. math:: W_1 \ge (E_p f - E_q f) \Big/ \max_{a \ne b} \frac{|f(a) - f(b)|}{\lVert a - b \rVert} \qquad (3)

    Slopes are those at unit scale: both networks shift and scale by the data's mean and standard deviation.

    References:
        | Wasserstein Generative Adversarial Networks (Arjovsky et al., 2017), https://arxiv.org/abs/1701.07875
        | Improved Training of Wasserstein GANs (Gulrajani et al., 2017), https://arxiv.org/abs/1704.00028

    Arguments:
        features: The dimension of the data.
        latent: The dimension of the noise :math:`z`.
        hidden: The widths of the hidden layers of both networks; their activation is leaky ReLU.
        penalty: The bound on the critic's slope: ``gradient`` or ``clip``.
        strength: Of the gradient penalty its weight :math:`\lambda` (1 unless given), of clipping the largest weight c
            (0.1 unless given).
        critic_steps: The number of the critic's steps for each of the generator's.
    """

    recipe = Recipe(optimizer="adam:betas=0.0/0.99", lr=2e-3, schedule="cosine", batch_size=128, epochs=300)

    def __init__(
        self,
        features: int,
        latent: int = 8,
        hidden: tuple[int, ...] = (128, 128),
        penalty: Penalty = "gradient",
        strength: float | None = None,
        critic_steps: int = 3,
    ) -> None:
        one_of(get_args(Penalty), penalty=penalty)
        generator, critic = dense_sides(features, latent, hidden)
        critic[-1].register_parameter("bias", None)  # a constant added to the critic changes nothing
        super().__init__(features, latent, critic_steps, generator, critic)
        self.penalty = penalty
        self.strength = STRENGTHS[penalty] if strength is None else strength
        if self.strength <= 0:
            raise UsageError(f"the strength of the penalty must be positive (got {strength})")
        self.constrain()

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0)) + 1
        return cls(features=2, latent=2, hidden=(8,), critic_steps=2), Batch(x)

    def discriminator_loss(self, batch: Batch) -> Terms:
        """Minus the difference that the critic finds between data and samples, and the penalty on its slope."""
        fake = self.sample(len(batch))
        terms = {"critic": self.discriminate(fake).mean() - self.discriminate(batch.x).mean()}  # eq. (1)
        return terms | ({"penalty": self.gradient_penalty(batch.x, fake)} if self.penalty == "gradient" else {})

    def gradient_penalty(self, x: Tensor, fake: Tensor) -> Tensor:
        """The penalty on the critic's slope at random points between data and samples."""
        share = torch.rand(len(x), 1, device=fake.device, dtype=fake.dtype)
        scale, critic = self.discriminator
        points = scale(torch.lerp(fake, flat(x, self.features), share)).requires_grad_()
        (slope,) = torch.autograd.grad(full(critic(points)).sum(), points, create_graph=True)
        penalty: Tensor = self.strength * (full(slope).norm(dim=1) - 1).square().mean()  # eq. (2)
        return penalty

    @torch.no_grad()
    def constrain(self) -> None:
        if self.penalty == "clip":
            for weight in self.discriminator.parameters():
                weight.clamp_(-self.strength, self.strength)

    def loss(self, batch: Batch) -> Terms:
        return {"generator": -self.discriminate(self._sample(len(batch))).mean()}  # eq. (1)

    def metrics(self, batch: Batch) -> Terms:
        """The distances between as many samples and the data: the energy distance, and what the critic knows of W1."""
        fake = full(self.sample(len(batch)))
        return {"energy_distance": energy_distance(fake, batch.x), "wasserstein": self.wasserstein(batch.x, fake)}

    def wasserstein(self, x: Tensor, y: Tensor) -> Tensor:
        """A lower bound of the earth mover's distance from the examples ``x`` to ``y``, by the critic."""
        points = torch.cat([flat(x, self.features), flat(y, self.features)])
        values = self.discriminate(points)
        distances = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
        apart = distances > 0  # of examples that are the same, values may differ by rounding
        steepest = ((values[:, None] - values).abs() / distances).where(apart, 0.0).max()
        return (values[: len(x)].mean() - values[len(x) :].mean()) / steepest.clamp_min(1e-30)  # eq. (3)
