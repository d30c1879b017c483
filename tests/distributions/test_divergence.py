"""The divergence against torch's closed forms, by quadrature, and as an estimate where there is none."""

import torch
from torch.distributions import Categorical, Independent, MixtureSameFamily, MultivariateNormal, Normal, kl_divergence

from deepcanon.distributions.divergence import divergence


def test_full_against_diagonal_is_torchs_full_against_full() -> None:
    torch.manual_seed(0)
    factor = torch.randn(5, 3, 3, dtype=torch.float64).tril(-1) + torch.rand(5, 3, dtype=torch.float64).diag_embed()
    q = MultivariateNormal(torch.randn(5, 3, dtype=torch.float64), scale_tril=factor)
    mean, scale = torch.randn(5, 3, dtype=torch.float64), torch.rand(5, 3, dtype=torch.float64) + 0.3
    wanted = kl_divergence(q, MultivariateNormal(mean, scale_tril=scale.diag_embed()))
    torch.testing.assert_close(divergence(q, Independent(Normal(mean, scale), 1), q.sample()), wanted)


def test_where_torch_has_a_closed_form_it_is_taken() -> None:
    q, p = (Independent(Normal(torch.full((4, 2), mean), 1.0), 1) for mean in (0.5, 0.0))
    assert torch.equal(divergence(q, p, torch.full((4, 2), 9.0)), kl_divergence(q, p))


def test_elsewhere_it_is_an_unbiased_estimate() -> None:
    torch.manual_seed(0)
    q = Normal(torch.tensor(0.4, dtype=torch.float64), 0.7)
    p = MixtureSameFamily(Categorical(torch.tensor([0.3, 0.7])), Normal(torch.tensor([-1.0, 1.0]).double(), 1.0))
    drawn = divergence(q, p, q.sample(torch.Size([100_000])))
    line = torch.linspace(-8, 8, 20001, dtype=torch.float64)
    exact = torch.trapezoid(q.log_prob(line).exp() * (q.log_prob(line) - p.log_prob(line)), line)
    assert abs(float(drawn.mean() - exact)) < 5 * float(drawn.std()) / 100_000**0.5
