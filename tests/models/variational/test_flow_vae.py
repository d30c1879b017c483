"""The flow VAE: densities of its posterior by quadrature, and a bound that a Gaussian posterior does not reach."""

import math
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.distributions import MultivariateNormal

from deepcanon import laws
from deepcanon.core import Batch, UsageError
from deepcanon.laws.latent import check_latent
from deepcanon.models.variational.flow_vae import FlowName, FlowVAE
from deepcanon.models.variational.vae import VAE


class Banana(nn.Module):
    """The mean z2 + z1^2 of one value: its posterior is bent, and p(x) is an integral over z1 and z2."""

    def forward(self, z: Tensor) -> Tensor:
        return z[..., 1:] + z[..., :1].square()


def with_banana(model: Any) -> Any:
    model.decoder.net = Banana()
    nn.init.constant_(model.decoder.likelihood.log_scale, math.log(0.3))
    return model


def evidence(model: Any, x: Tensor) -> Tensor:
    """log p(x) by quadrature over the two latents."""
    line = torch.linspace(-6, 6, 301, dtype=x.dtype)
    z = torch.cartesian_prod(line, line)
    joint: Tensor = model.decode(z.unsqueeze(1)).log_prob(x) + model.prior().log_prob(z).unsqueeze(1)
    return joint.logsumexp(0) + 2 * (line[1] - line[0]).log()


def trained_bound(model: Any, x: Tensor, steps: int) -> float:
    """The mean ELBO after training the posterior alone."""
    parameters = [value for name, value in model.named_parameters() if not name.startswith("decoder")]
    optimizer = torch.optim.Adam(parameters, lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.stack(list(model.loss(Batch(x)).values())).sum().backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        return float(torch.stack([model.log_prob(x).mean() for _ in range(100)]).mean())


@pytest.mark.parametrize("flow", ["planar", "radial", "iaf"])
def test_the_posterior_of_each_example_integrates_to_one(flow: FlowName) -> None:
    torch.manual_seed(0)
    model = FlowVAE(3, latent=2, hidden=(8,), flow=flow, transforms=3, summary=4).double()
    with torch.no_grad():
        for parameter in model.flow.parameters():
            parameter.copy_(0.7 * torch.randn_like(parameter))
    x = torch.randn(2, 3, dtype=torch.float64)
    line = torch.linspace(-8, 8, 161, dtype=torch.float64)
    with torch.no_grad():
        posterior = model.encode(x)
        grid = posterior.mean + posterior.stddev * torch.cartesian_prod(line, line).unsqueeze(1)
        density = posterior.log_prob(grid).exp() * posterior.stddev.prod(-1)
    torch.testing.assert_close(density.sum(0) * (line[1] - line[0]) ** 2, torch.ones(2).double(), rtol=0, atol=5e-3)
    assert (density[:, 0] - density[:, 1]).abs().max() > 0.01, "every example has a posterior of its own"


def test_the_terms_are_the_bound_and_many_samples_reach_the_evidence() -> None:
    torch.manual_seed(0)
    model = with_banana(FlowVAE(1, latent=2, hidden=(8,), transforms=2, summary=3).double())
    x = model.sample(6, generator=Generator().manual_seed(0))
    torch.manual_seed(1)
    terms = model.loss(Batch(x))
    torch.manual_seed(1)
    torch.testing.assert_close(terms["reconstruction"] + terms["kl"], -model.log_prob(x).mean())
    with torch.no_grad():
        tight = torch.stack([model.log_prob(x, samples=20_000) for _ in range(5)])
    torch.testing.assert_close(tight.mean(0), evidence(model, x), rtol=0, atol=0.1)


@torch.no_grad()
def test_with_the_exact_posterior_of_a_linear_model_every_draw_of_the_bound_is_the_log_likelihood() -> None:
    """Without hidden layers and with constant gates, a step of the IAF is a triangular matrix: correlated latents."""
    torch.manual_seed(0)
    model = FlowVAE(5, latent=3, hidden=(), flow="iaf", transforms=1, summary=2).double()
    (layer,) = model.decoder.net.children()
    weight, bias = layer.get_parameter("weight"), layer.get_parameter("bias")  # (5, 3) and (5,)
    likelihood: Any = model.decoder.likelihood
    noise = float(likelihood.scale) ** 2
    x = torch.randn(7, 5, dtype=torch.float64)
    covariance = torch.linalg.inv(torch.eye(3) + weight.T @ weight / noise)  # of z given x
    factor = torch.linalg.cholesky(covariance)
    step: Any = model.flow.transforms[0]
    gate = step.output.bias[3:].sigmoid()
    scale = factor.diagonal() / gate
    step.output.weight.zero_()
    step.output.weight[:3, 2:] = (factor / scale / (1 - gate).unsqueeze(1)).tril(-1)  # after the summary of two values
    matrix = factor / scale  # of the step as a whole
    (encoder,) = model.encoder.children()
    assert isinstance(encoder, nn.Linear)
    encoder.weight.zero_()
    encoder.weight[:3] = torch.linalg.inv(matrix) @ covariance @ weight.T / noise
    encoder.bias[:3] = -encoder.weight[:3] @ bias
    encoder.bias[3:6] = scale.log()
    evidence = MultivariateNormal(bias, weight @ weight.T + noise * torch.eye(5, dtype=torch.float64))
    for _ in range(3):
        torch.testing.assert_close(model.log_prob(x), evidence.log_prob(x), rtol=1e-10, atol=1e-10)
    z = torch.randn(4, 7, 3, dtype=torch.float64)
    mean = (x - bias) @ weight @ covariance / noise
    exact = MultivariateNormal(mean, covariance).log_prob(z)
    torch.testing.assert_close(model.encode(x).log_prob(z), exact, rtol=1e-10, atol=1e-10)


@pytest.mark.slow
def test_the_bound_improves_over_a_diagonal_gaussian_where_the_posterior_is_bent() -> None:
    gains: dict[FlowName, list[float]] = {"planar": [], "iaf": []}
    for seed in range(3):
        torch.manual_seed(seed)
        plain = with_banana(VAE(1, latent=2, hidden=(32,), activation="tanh"))
        x = plain.sample(128, generator=Generator().manual_seed(seed))
        with torch.no_grad():
            exact = float(evidence(plain, x).mean())
        diagonal = trained_bound(plain, x, 400)
        for kind, found in gains.items():
            flow = with_banana(
                FlowVAE(1, latent=2, hidden=(32,), flow=kind, transforms=4, summary=8, activation="tanh")
            )
            bound = trained_bound(flow, x, 400)
            assert bound < exact + 0.02, (kind, bound, exact)
            found.append(bound - diagonal)
    for kind, found in gains.items():
        assert min(found) > 0.2, (kind, found)
        assert sum(found) / 3 > 2 * float(torch.tensor(found).std()) / math.sqrt(3), (kind, found)


@pytest.mark.slow
def test_the_inverse_autoregressive_flow_keeps_the_laws_of_latent_variable_models() -> None:
    torch.manual_seed(0)
    model = FlowVAE(3, latent=2, hidden=(8,), flow="iaf", transforms=2, summary=3)
    outcomes = check_latent(model, Batch(torch.randn(8, 3)))
    assert not [each for each in outcomes if not each.holds], laws.report(outcomes)


def test_reconstructions_do_not_depend_on_the_global_generator() -> None:
    model, batch = FlowVAE.example()
    torch.manual_seed(0)
    once = model.reconstruct(batch.x)
    torch.manual_seed(1)
    assert torch.equal(model.reconstruct(batch.x), once)
    assert once.shape == batch.x.shape


def test_arguments_are_checked() -> None:
    with pytest.raises(UsageError, match="transforms must be at least 1"):
        FlowVAE(4, transforms=0)
    with pytest.raises(UsageError, match="flow must be one of planar, radial, iaf"):
        FlowVAE(4, flow="cubic")  # type: ignore[arg-type]
