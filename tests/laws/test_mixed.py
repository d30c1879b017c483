"""Each law of mixed distributions is shown a model that breaks it; a healthy one keeps them all."""

from typing import Any, Self

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.distributions import Categorical, Normal

from deepcanon import laws
from deepcanon.core import Batch, Density, Support, Terms, UsageError, draw
from deepcanon.laws import discrete, mixed
from deepcanon.laws.outcome import Law


class ByCategory(Density[Batch]):
    r"""A category of three, and a Gaussian given the category: conditional Gaussian data, as of a naive Bayes model.

    .. math:: p(k, y) = \pi_k N(y; \mu_k, \sigma_k^2) \qquad (1)

    References:
        | Probabilistic Graphical Models (Koller and Friedman, 2009)

    Arguments:
        features: The number of features: the real one and the category.
    """

    discrete = (1,)

    def __init__(self, features: int = 2) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.tensor([0.0, 1.0, -0.5]))
        self.mean = nn.Parameter(torch.tensor([-3.0, 0.0, 2.0]))
        self.log_scale = nn.Parameter(torch.tensor([-0.5, 0.0, 0.3]))

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        y = torch.randn(30, generator=Generator().manual_seed(0))
        return cls(2), Batch(torch.stack([y, torch.arange(30) % 3], 1))

    @property
    def support(self) -> Support:
        return "mixed"

    def _log_prob(self, x: Tensor) -> Tensor:
        k = x[:, 1].long()
        scale = self.log_scale.exp()
        given = -0.5 * ((x[:, 0] - self.mean[k]) / scale[k]).square() - self.log_scale[k] - 0.9189385332046727
        return self.logits.log_softmax(0)[k] + given  # eq. (1)

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        k = draw(Categorical(logits=self.logits), generator, (n,))
        noise = torch.randn(n, generator=generator, dtype=self.mean.dtype, device=self.mean.device)
        return torch.stack([self.mean[k] + self.log_scale[k].exp() * noise, k.to(noise)], 1)


class Unnormalized(ByCategory):
    def _log_prob(self, x: Tensor) -> Tensor:
        return super()._log_prob(x) + 0.1


class OtherShares(ByCategory):
    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        x = super()._sample(n, generator)
        return torch.cat([x[: n // 2], x[x[:, 1] == 1].repeat(9, 1)])[:n]


class Apart(ByCategory):
    """Real values that do not go with their categories."""

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        x = super()._sample(n, generator)
        return torch.stack([x[:, 0].roll(1), x[:, 1]], 1)


class OtherLoss(ByCategory):
    def loss(self, batch: Batch) -> Terms:
        return {"nll": -2 * self.log_prob(batch.x).mean()}


class TakesAll(ByCategory):
    def check_values(self, x: Tensor) -> None:
        return


@pytest.mark.slow
def test_categories_with_a_real_number_keep_all_laws() -> None:
    assert laws.kinds_of(ByCategory) == ["contract", "mixed"]
    torch.manual_seed(0)
    outcomes = laws.check(ByCategory)
    assert not [each for each in outcomes if not each.holds], laws.report(outcomes)
    assert len([each for each in outcomes if each.law in {law.__name__.replace("_", " ") for law in mixed.LAWS}]) == 5


@pytest.mark.parametrize(
    ("law", "cls"),
    [
        (mixed.sums_and_integrals_make_one, Unnormalized),
        (mixed.samples_have_the_shares_of_the_states, OtherShares),
        (mixed.real_values_go_with_their_categories, Apart),
        (discrete.loss_is_the_negative_log_likelihood, OtherLoss),
        (mixed.other_values_are_refused, TakesAll),
    ],
)
def test_a_planted_fault_is_found(law: Law, cls: Any) -> None:
    torch.manual_seed(0)
    found = law(*cls.example())
    assert found is not None
    assert not found.holds


def test_the_likelihood_is_torchs() -> None:
    model, batch = ByCategory.example()
    k, y = batch.x[:, 1].long(), batch.x[:, 0]
    wanted = model.logits.log_softmax(0)[k] + Normal(model.mean[k], model.log_scale[k].exp()).log_prob(y)
    torch.testing.assert_close(model.log_prob(batch.x), wanted)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(UsageError, match="log_prob, sample, discrete is missing"):
        laws.check((nn.Linear(1, 1), Batch(torch.zeros(1, 1))), "mixed")
