"""Chains of latent variables against the joint Gaussian of a linear chain, and in a model with two layers of them."""

from typing import Self

import torch
from torch import Tensor, nn
from torch.distributions import Distribution, Independent, MultivariateNormal, Normal

from deepcanon.core import Batch, Support, Terms
from deepcanon.distributions.chained import Chained
from deepcanon.models.variational._variational import Variational

DOUBLE = torch.float64


def gaussian(mean: Tensor, scale: float) -> Distribution:
    return Independent(Normal(mean, torch.full_like(mean, scale)), 1)


def linear_chain(backward: bool) -> tuple[Chained, MultivariateNormal, Tensor]:
    """z1 ~ N(0, I) of two values, z2 = A z1 + 0.5 e of three; and the joint in the order of the values."""
    weight = torch.randn(3, 2, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    chain = Chained(
        gaussian(torch.zeros(2, dtype=DOUBLE), 1.0), [lambda z: gaussian(z @ weight.T, 0.5)], (2, 3), backward=backward
    )
    top, cross = torch.eye(2, dtype=DOUBLE), weight
    low = weight @ weight.T + 0.25 * torch.eye(3, dtype=DOUBLE)
    joint = torch.cat([torch.cat([top, cross.T], 1), torch.cat([cross, low], 1)])
    if backward:
        order = torch.tensor([2, 3, 4, 0, 1])
        joint = joint[order][:, order]
    return chain, MultivariateNormal(torch.zeros(5, dtype=DOUBLE), joint), weight


def test_a_linear_chain_is_the_joint_gaussian() -> None:
    for backward in (False, True):
        chain, joint, _ = linear_chain(backward)
        value = torch.randn(7, 5, dtype=DOUBLE)
        torch.testing.assert_close(chain.log_prob(value), joint.log_prob(value))
        torch.manual_seed(0)
        drawn = chain.sample(torch.Size([200_000]))
        torch.testing.assert_close(torch.cov(drawn.T), joint.covariance_matrix, rtol=0, atol=0.06)


class TwoLayers(Variational[Batch]):
    """x = B z1 + e with z1 = A z2 + e: a posterior from the data upwards, a prior from the top downwards."""

    latent = 3

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.tensor([[0.8], [-0.5]])), nn.Parameter(torch.eye(3, 2) + 0.3)

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        return cls(), Batch(torch.randn(6, 3))

    @property
    def support(self) -> Support:
        return "real"

    def prior(self) -> Distribution:
        top = gaussian(self.a.new_zeros(1), 1.0)
        return Chained(top, [lambda z: gaussian(z @ self.a.T, 0.7)], (1, 2), backward=True)

    def encode(self, x: Tensor) -> Distribution:
        """The exact posterior of z1 and of z2 given z1, as a chain."""
        prior = self.a @ self.a.T + 0.49 * torch.eye(2, dtype=x.dtype)
        covariance = torch.linalg.inv(torch.linalg.inv(prior) + self.b.T @ self.b / 0.36)
        low = MultivariateNormal(x @ self.b @ covariance / 0.36, covariance)
        spread = 1 / (1 + self.a.square().sum() / 0.49)
        return Chained(low, [lambda z: gaussian(z @ self.a * spread / 0.49, float(spread.sqrt().detach()))], (2, 1))

    def decode(self, z: Tensor) -> Distribution:
        return gaussian(z[..., :2] @ self.b.T, 0.6)

    def loss(self, batch: Batch) -> Terms:
        return {"elbo": torch.stack(self.bound(batch.x)).sum(0).mean()}


def test_with_the_exact_posterior_every_draw_of_the_bound_is_the_evidence() -> None:
    torch.manual_seed(0)
    model, batch = TwoLayers.example()
    model, x = model.double(), batch.x.double()
    low = model.a @ model.a.T + 0.49 * torch.eye(2, dtype=DOUBLE)
    covariance = model.b @ low @ model.b.T + 0.36 * torch.eye(3, dtype=DOUBLE)
    exact = MultivariateNormal(torch.zeros(3, dtype=DOUBLE), covariance).log_prob(x)
    with torch.no_grad():
        torch.testing.assert_close(model.log_prob(x), exact, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(model.log_prob(x, samples=3), exact, rtol=1e-9, atol=1e-9)
        drawn = model.sample(100_000)
    torch.testing.assert_close(torch.cov(drawn.T), covariance.detach(), rtol=0, atol=0.06)
