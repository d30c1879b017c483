"""Active latents of planted encoders, the weight of the loss against autograd, and the effect of warm-up."""

from typing import Any

import pytest
import torch
from torch import Generator

import deepcanon as dc
from deepcanon.studies.posterior_collapse import learn, measured, posterior_collapse


def linear(**arguments: Any) -> Any:
    return dc.find("vae")(features=4, latent=3, hidden=(), likelihood="bernoulli", **arguments)


def test_latents_are_active_exactly_where_their_mean_varies() -> None:
    """The means are planted: x1, x2 / 20 and a constant, with the variances 0.25, 0.000625 and 0."""
    x = torch.cartesian_prod(*[torch.arange(2.0)] * 4)
    model = linear()
    with torch.no_grad():
        for parameter in model.encoder.parameters():
            parameter.zero_()
        (layer,) = [module for module in model.encoder.modules() if isinstance(module, torch.nn.Linear)]
        layer.weight[0, 0], layer.weight[1, 1], layer.bias[2] = 1.0, 0.05, 3.0
    found = measured(model, x)
    assert found["active"] == 1
    kl = 0.5 * (0.5 * 1.0 + 0.5 * 0.05**2 + 9.0)  # of unit variances: half the mean squared means
    assert found["kl"] == pytest.approx(kl, rel=1e-5)


@pytest.mark.slow
def test_a_huge_weight_makes_the_posterior_the_prior_and_none_lets_it_go() -> None:
    x = torch.rand(200, 4, generator=Generator().manual_seed(0)).round()
    kls = []
    for beta in (0.0, 1e3):
        torch.manual_seed(0)
        model = linear()
        learn(model, x, beta, 0.0, 300, Generator().manual_seed(0))
        kls.append(measured(model, x))
    assert kls[0]["kl"] > 2
    assert kls[1]["kl"] < 0.01
    assert kls[1]["active"] == 0


@pytest.mark.slow
def test_warm_up_keeps_latents_active_with_every_seed() -> None:
    state = torch.get_rng_state()
    found = posterior_collapse(dc.find("vae"), betas=(0.5, 4.0), seeds=3).numbers["found"]
    assert torch.equal(torch.get_rng_state(), state)
    for cold, warm in zip(found["no warm-up"], found["warm-up"], strict=True):
        assert cold[1]["active"] == 0 < warm[1]["active"]
        assert warm[1]["active"] < warm[0]["active"]
        assert cold[1]["bound"] > warm[1]["bound"]
