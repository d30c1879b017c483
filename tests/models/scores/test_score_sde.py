"""Score SDE: noise levels by quadrature, likelihood and samples with the exact score of a mixture."""

import math
from typing import Any, get_args

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.distributions import Categorical, Independent, MixtureSameFamily, MultivariateNormal, Normal

from deepcanon.comparison.measures import bits_per_dimension
from deepcanon.core import Batch, UsageError
from deepcanon.data import of
from deepcanon.models.scores._sde import PROCESSES, Process
from deepcanon.models.scores.score_sde import ScoreSDE
from deepcanon.train import fit
from deepcanon.train.evaluation import assess

MEANS = torch.tensor([[-1.5, 0.0], [1.0, 1.0]], dtype=torch.float64)
SHARES = torch.tensor([0.7, 0.3], dtype=torch.float64)
WIDTH = 0.4


def mixture(signal: Tensor, noise: Tensor) -> MixtureSameFamily:
    """The density of y = signal x + noise ε for a Gaussian mixture x; signal and noise are (B, 1)."""
    spread = ((signal * WIDTH).square() + noise.square()).sqrt().unsqueeze(-1).expand(-1, 2, 2)
    means = signal.unsqueeze(-1) * MEANS
    categories = Categorical(SHARES.expand(len(means), 2))
    return MixtureSameFamily(categories, Independent(Normal(means, spread), 1))


def density(x: Tensor) -> Tensor:
    one = torch.ones(len(x), 1, dtype=torch.float64)
    found: Tensor = mixture(one, 0 * one).log_prob(x)
    return found


class Exact(ScoreSDE):
    """The velocity of the exact score of the mixture, at the angle of the flow or of the time."""

    def _velocity(self, net: nn.Module, y: Tensor, t: Tensor) -> Tensor:
        return self._exact(self.sde.angle(t).expand(len(y), 1), y)

    def _flow(self, angle: Tensor, y: Tensor) -> Tensor:
        return self._exact(angle.unsqueeze(-1), y)

    def _exact(self, angle: Tensor, y: Tensor) -> Tensor:
        signal, noise = angle.cos(), angle.sin()
        with torch.enable_grad():
            y = y if y.requires_grad else y.detach().requires_grad_()
            (score,) = torch.autograd.grad(mixture(signal, noise).log_prob(y).sum(), y, create_graph=True)
        return -noise / signal * (score + y)


def exact(process: Process) -> Exact:
    return Exact(2, process=process, hidden=(4,), tolerance=1e-8).double().eval()


@pytest.mark.parametrize("process", get_args(Process))
def test_the_noise_of_a_process_solves_its_moment_equations(process: Process) -> None:
    """d a = f a dt and d s² = (2 f s² + g²) dt, whatever closed forms say; time and angle are inverse."""
    sde = PROCESSES[process]
    t = torch.linspace(0.01, 1, 50, dtype=torch.float64, requires_grad=True)
    a, s2 = sde.signal(t) + 0 * t, sde.noise(t).square()
    of_a, of_s2 = (torch.autograd.grad(each.sum(), t, retain_graph=True)[0] for each in (a, s2))
    assert torch.allclose(of_a, sde.drift(t) * a, atol=1e-10)
    assert torch.allclose(of_s2, 2 * sde.drift(t) * s2 + sde.diffusion(t).square(), rtol=1e-9)
    assert torch.allclose(sde.time(sde.angle(t)), t, atol=1e-7)


@pytest.mark.parametrize("process", get_args(Process))
def test_with_the_exact_score_the_likelihood_is_that_of_the_mixture(process: Process) -> None:
    """To the tolerance, if the process goes on to pure noise: of what is left of the data the prior knows nothing."""
    x = 1.5 * torch.randn(20, 2, dtype=torch.float64, generator=Generator().manual_seed(0))
    model = exact(process)
    model._last_angle = lambda: math.pi / 2 - 1e-6  # type: ignore[method-assign]
    assert torch.allclose(model.log_prob(x), density(x), atol=1e-5)


@pytest.mark.parametrize("process", get_args(Process))
@pytest.mark.parametrize("sampler", ScoreSDE.samplers)
def test_with_the_exact_score_samples_are_those_of_the_mixture(process: Process, sampler: str) -> None:
    model = exact(process)
    model.tolerance = 1e-4
    steps = None if sampler == "flow" else 100
    x = model.sample(800, sampler=sampler, steps=steps, generator=Generator().manual_seed(0))
    left = x[:, 0] < -0.25
    assert abs(float(left.double().mean()) - 0.7) < 0.06
    assert torch.allclose(x[left].mean(0), MEANS[0], atol=0.08)
    assert torch.allclose(x[~left].std(0), torch.full((2,), WIDTH, dtype=torch.float64), atol=0.08)


def test_random_directions_give_the_likelihood_in_expectation_with_an_error() -> None:
    torch.manual_seed(0)
    model = ScoreSDE(9, hidden=(8,), tolerance=1e-4).double().eval()
    x = torch.randn(2, 9, dtype=torch.float64)
    assert model.likelihood_kind == "estimate"
    drawn = model.log_prob(x.repeat(200, 1), generator=Generator().manual_seed(0)).reshape(200, 2)
    metrics = model.metrics(Batch(x.repeat(50, 1)))
    model._flow_kind = lambda: "exact"  # type: ignore[method-assign]
    wanted = model._log_prob(x)
    assert drawn.std() > 0.01
    assert ((drawn.mean(0) - wanted).abs() < 5 * drawn.std(0) / math.sqrt(200) + 1e-3).all()
    assert 0.3 < float(metrics["nll_error"]) / float(drawn.std(0).mean() / 10) < 3


def test_the_likelihood_of_gray_levels_is_given_in_bits_too() -> None:
    model = ScoreSDE(4, channels=1, height=2, width=2, levels=17, hidden=(4,))
    with torch.no_grad():
        metrics = model.metrics(Batch(torch.rand(8, 1, 2, 2)))
    wanted = bits_per_dimension(-float(metrics["nll"]), dimensions=4, levels=17)
    assert float(metrics["bits_per_dim"]) == pytest.approx(wanted, rel=1e-5)
    assert "bits_per_dim" not in ScoreSDE(4, hidden=(4,)).metrics(Batch(torch.rand(8, 4)))


def test_the_likelihood_is_measured_at_the_end_of_a_training_only() -> None:
    model, batch = ScoreSDE.example()
    assert set(assess(model, batch, likelihood=False).scores) == {"denoising", "loss"}
    assert set(assess(model, batch).scores) == {"denoising", "loss", "nll"}


@pytest.mark.slow
@pytest.mark.parametrize("process", get_args(Process))
def test_it_learns_the_density_and_the_score_of_a_gaussian(process: Process) -> None:
    """The mean log-likelihood of samples cannot exceed minus the entropy, and the score is linear."""
    covariance = torch.tensor([[1.0, 0.6], [0.6, 0.5]])
    truth = MultivariateNormal(torch.tensor([2.0, -1.0]), covariance)
    torch.manual_seed(0)
    data = of(truth.sample((4000,)))
    model = ScoreSDE(2, process=process, hidden=(32,), average=0.99, tolerance=1e-3)
    fit(model, data, quiet=True, seed=0, steps=700, lr=5e-3, batch_size=256, evaluate=False, pictures=False)
    model.eval()
    x = truth.sample((500,))
    with torch.no_grad():
        loss = (truth.log_prob(x) - model.log_prob(x)).mean()
        at = truth.sample((200,))
        score = model.score(at, t=float(model.sde.time(torch.tensor(0.5).atan())))
    assert -0.05 < float(loss) < 0.1  # the divergence of the model from the truth, in nats
    # At that time the noise is half of the signal, and standardized data have a deviation of about 1.
    blurred = covariance + (0.5 / model.to_standard.scale) ** 2 * torch.eye(2)
    wanted = -(at - truth.mean) @ blurred.inverse()
    assert float((score - wanted).square().mean() / wanted.square().mean()) < 0.05
    drawn = model.sample(2000, generator=Generator().manual_seed(0))
    torch.testing.assert_close(drawn.mean(0), truth.mean, atol=0.1, rtol=0)
    torch.testing.assert_close(drawn.T.cov(), covariance, atol=0.12, rtol=0)


def test_wrong_arguments_are_refused() -> None:
    model: Any = ScoreSDE.example()[0]
    with pytest.raises(UsageError, match="leave out steps"):
        model.sample(3, steps=5)
    with pytest.raises(UsageError, match=r"t is a time from 0.001 to 1"):
        model.score(torch.zeros(1, 3), t=0.0)
    with pytest.raises(UsageError, match="process must be one of vp, subvp, ve"):
        ScoreSDE(2, process="vx")  # type: ignore[arg-type]
