"""Continuous flows: a Gaussian in closed form, volumes, scipy's solver, and the error of Hutchinson's estimator."""

import math
from typing import Any

import pytest
import torch
from scipy import stats
from scipy.integrate import solve_ivp
from torch import Tensor, nn

import deepcanon as dc
from deepcanon import laws
from deepcanon.core import Batch, UsageError
from deepcanon.models.flows.continuous_flow import ContinuousFlow


def flow(features: int, hidden: tuple[int, ...] = (16,), **arguments: Any) -> ContinuousFlow:
    """One that is far from the identity, in double precision, on data with a unit of their own."""
    torch.manual_seed(0)
    model = ContinuousFlow(features, hidden, **{"tolerance": 1e-9} | arguments).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    model.prepare([Batch(3 * torch.randn(100, features) + 1)])
    return model.eval()


def linear(features: int, **arguments: Any) -> tuple[ContinuousFlow, Tensor, Tensor]:
    """A flow along dx/dt = A x + c, with A and c."""
    model = flow(features, hidden=(), **arguments)
    (layer,) = model.field.layers
    nn.init.zeros_(layer.gate.weight)  # type: ignore[arg-type, union-attr]
    nn.init.zeros_(layer.shift.weight)  # type: ignore[arg-type, union-attr]
    gate = layer.gate.bias.sigmoid().detach()  # type: ignore[operator, union-attr]
    return model, gate.unsqueeze(1) * layer.linear.weight.detach(), gate * layer.linear.bias.detach()  # type: ignore[operator, union-attr]


def points(count: int, features: int) -> Tensor:
    return 3 * torch.randn(count, features, generator=torch.Generator().manual_seed(5)).double() + 1


def test_along_a_linear_field_it_is_a_gaussian() -> None:
    """x(1) = exp(A) z + (exp(A) - I) / A c, which standardization scales and shifts; scipy has its density."""
    model, a, c = linear(3)
    grown = torch.linalg.matrix_exp(a)
    mean = torch.linalg.solve(a, (grown - torch.eye(3)) @ c)
    scale = model.standard.std.diag() @ grown
    gaussian = stats.multivariate_normal((model.standard.inverse(mean)).numpy(), (scale @ scale.T).numpy())
    x = points(20, 3)
    torch.testing.assert_close(model.log_prob(x), torch.from_numpy(gaussian.logpdf(x.numpy())), rtol=0, atol=1e-7)


@pytest.mark.parametrize(("tolerance", "bound"), [(1e-10, 1e-8), (1e-5, 1e-3)])
def test_it_is_inverted_to_the_tolerance_both_ways(tolerance: float, bound: float) -> None:
    model, x, z = flow(4, tolerance=tolerance), points(30, 4), torch.randn(30, 4).double()
    with torch.no_grad():
        torch.testing.assert_close(model.to_data(model.to_latent(x)[0]), x, rtol=0, atol=bound)
        torch.testing.assert_close(model.encode(model.to_data(z)), z, rtol=0, atol=bound)


def test_in_single_precision_data_come_back_too() -> None:
    model, x = flow(4, tolerance=1e-5).float(), points(30, 4).float()
    with torch.no_grad():
        torch.testing.assert_close(model.to_data(model.encode(x)), x, rtol=0, atol=1e-3)


@pytest.mark.slow
def test_the_integral_of_the_trace_is_the_log_determinant_of_the_jacobian() -> None:
    model = flow(3, (8, 8))
    x = points(4, 3)
    _, claimed = model.to_latent(x)
    for row, log_det in zip(x, claimed, strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda v: model.encode(v.unsqueeze(0)).squeeze(0), row)
        assert torch.linalg.slogdet(jacobian).logabsdet.item() == pytest.approx(log_det.item(), abs=1e-7)


def test_latents_and_volumes_are_those_that_scipy_integrates() -> None:
    model, x = flow(2, (8,)), points(1, 2)

    def dynamics(t: float, state: Any) -> Any:
        at = torch.from_numpy(state[:2])
        jacobian = torch.autograd.functional.jacobian(lambda v: model.field(torch.tensor([t]).double(), v[None])[0], at)
        with torch.no_grad():
            velocity = model.field(torch.tensor([t]).double(), at[None])[0]
        return [*velocity.tolist(), float(jacobian.trace())]

    start = [*model.standard(x)[0].tolist(), 0.0]
    end = solve_ivp(dynamics, (1.0, 0.0), start, "DOP853", rtol=1e-10, atol=1e-10).y[:, -1]
    z, log_det = model.to_latent(x)
    torch.testing.assert_close(z[0], torch.from_numpy(end[:2].copy()), rtol=0, atol=1e-7)
    assert log_det.item() == pytest.approx(end[2] + model.standard.log_det().item(), abs=1e-7)


def test_the_density_integrates_to_one() -> None:
    model = flow(2, tolerance=1e-5)
    line = torch.linspace(-16, 18, 120, dtype=torch.float64)
    with torch.no_grad():
        total = model.log_prob(torch.cartesian_prod(line, line)).exp().sum() * (line[1] - line[0]) ** 2
    assert total.item() == pytest.approx(1, abs=2e-3)


def test_hutchinson_is_unbiased_with_the_variance_of_its_closed_form() -> None:
    """Along a linear field the estimate is off by tr A - e'A e, of variance 2 sum of the squares off the diagonal."""
    model, a, _ = linear(4, trace="hutchinson", tolerance=1e-6)
    x = points(1, 4).expand(4000, 4)
    with torch.no_grad():
        exact = model._log_prob(x[:1]).item()
        drawn = model.log_prob(x, generator=torch.Generator().manual_seed(0))
        sharper = model.log_prob(x[:500], samples=16, generator=torch.Generator().manual_seed(1))
    symmetric = (a + a.T) / 2
    variance = 2 * float((symmetric - symmetric.diag().diag()).square().sum())
    assert drawn.mean().item() == pytest.approx(exact, abs=5 * math.sqrt(variance / 4000))
    assert drawn.var().item() == pytest.approx(variance, rel=0.1)
    assert sharper.var().item() == pytest.approx(variance / 16, rel=0.4)


def test_the_kind_of_the_likelihood_is_that_of_the_trace_and_an_estimate_has_its_error() -> None:
    exact, (drawn, a, _) = flow(4), linear(4, trace="hutchinson", tolerance=1e-6)
    assert (exact.likelihood_kind, drawn.likelihood_kind) == ("exact", "estimate")
    kinds = [ContinuousFlow(features).likelihood_kind for features in (8, 9)]
    assert kinds == ["exact", "estimate"]
    assert ContinuousFlow(9, trace="exact").likelihood_kind == "exact"
    batch = Batch(points(6400, 4))
    with torch.no_grad():
        assert set(exact.metrics(Batch(batch.x[:5]))) == {"nll"}
        found = drawn.metrics(batch)
    symmetric = (a + a.T) / 2
    variance = 2 * float((symmetric - symmetric.diag().diag()).square().sum())
    assert found["nll_error"].item() == pytest.approx(math.sqrt(variance / 6400), rel=0.5)
    with pytest.raises(UsageError, match="leave out samples"):
        exact.log_prob(batch.x[:5], samples=4)


def test_the_score_is_exact_whatever_the_trace() -> None:
    exact, drawn = flow(3, (8, 8)), flow(3, (8, 8), trace="hutchinson")
    x = points(5, 3)
    torch.testing.assert_close(drawn.score(x), exact.score(x))
    with pytest.raises(UsageError, match="takes no context"):
        drawn.score(x, context=torch.zeros(5))


def test_one_feature_is_enough_and_images_are_flattened() -> None:
    assert flow(1).log_prob(points(6, 1)).shape == (6,)
    assert flow(16, tolerance=1e-3).log_prob(torch.rand(3, 1, 4, 4).double()).shape == (3,)


@pytest.mark.slow
def test_with_estimated_traces_it_keeps_the_laws_of_flows() -> None:
    torch.manual_seed(0)
    model = ContinuousFlow(2, (8,), trace="hutchinson", tolerance=1e-7)
    found = laws.check((model, Batch(points(16, 2).float())), "flow")
    assert all(outcome.holds for outcome in found), laws.report(found)


def test_training_tolerates_more_and_stays_close() -> None:
    model, x = flow(2, tolerance=1e-7), points(20, 2)
    with torch.no_grad():
        exact, rough = model.log_prob(x), model.train().log_prob(x)
    assert 0 < float((exact - rough).abs().max()) < 1e-3


@pytest.mark.slow
def test_the_recipe_fits_moons() -> None:
    """Less than half of it is enough to be far better than a Gaussian."""
    torch.manual_seed(0)
    data = dc.load_data("moons")
    result = dc.fit(ContinuousFlow(2), data, epochs=8, quiet=True)
    gaussian = stats.multivariate_normal(data.train.x.mean(0).numpy(), data.train.x.T.cov().numpy())
    assert result.test["nll"] < -gaussian.logpdf(data.split("test").x.numpy()).mean() - 0.3


@pytest.mark.parametrize(
    ("arguments", "words"), [({"trace": "guess"}, "auto, exact, hutchinson"), ({"tolerance": 0.0}, "at most 0.01")]
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        ContinuousFlow(2, **arguments)


def exact_dynamics(model: ContinuousFlow) -> Any:
    """dx/dt and minus the trace of its derivative, as torchdiffeq takes them; the trace entry by entry, by autograd."""

    def dynamics(t: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            x = state[0].detach().requires_grad_() if not state[0].requires_grad else state[0]
            velocity = model.field(t.expand(len(x)), x)
            columns = range(x.shape[1])
            trace = sum(torch.autograd.grad(velocity[:, i].sum(), x, create_graph=True)[0][:, i] for i in columns)
        return velocity, trace  # type: ignore[return-value]

    return dynamics


@pytest.mark.slow
def test_solver_and_likelihood_are_torchdiffeqs() -> None:
    """The same field by the solver of the paper's authors: the data of latents, the latents, and the log-density."""
    theirs: Any = pytest.importorskip("torchdiffeq", reason="needs torchdiffeq, of deepcanon[oracles]")
    model, x, z = flow(3), points(12, 3), torch.randn(12, 3).double()
    tight = {"rtol": 1e-10, "atol": 1e-10, "method": "dopri5"}
    with torch.no_grad():
        ends = theirs.odeint(
            lambda t, y: model.field(t.expand(len(y)), y), z, torch.tensor([0.0, 1.0]).double(), **tight
        )
        torch.testing.assert_close(model.to_data(z), model.standard.inverse(ends[-1]), rtol=0, atol=1e-7)
    start = (model.standard(x), torch.zeros(12).double())
    latent, trace = theirs.odeint(exact_dynamics(model), start, torch.tensor([1.0, 0.0]).double(), **tight)
    log_det = trace[-1] + model.standard.log_det()
    wanted = -0.5 * latent[-1].square().sum(1) - 1.5 * math.log(2 * math.pi) + log_det
    torch.testing.assert_close(model.encode(x), latent[-1], rtol=0, atol=1e-7)
    torch.testing.assert_close(model.log_prob(x), wanted, rtol=0, atol=1e-7)
    names = [name for name, _ in model.named_parameters()]
    ours = torch.autograd.grad(model.log_prob(x).mean(), [model.get_parameter(name) for name in names])
    through = torch.autograd.grad(wanted.mean(), [model.get_parameter(name) for name in names], allow_unused=True)
    for found, exact in zip(ours, through, strict=True):
        torch.testing.assert_close(found, torch.zeros_like(found) if exact is None else exact, rtol=0, atol=1e-6)


def test_hutchinsons_estimate_has_the_mean_that_torchdiffeq_finds_by_the_exact_trace() -> None:
    theirs: Any = pytest.importorskip("torchdiffeq", reason="needs torchdiffeq, of deepcanon[oracles]")
    model, x = flow(3, trace="hutchinson", tolerance=1e-6), points(4, 3)
    start = (model.standard(x), torch.zeros(4).double())
    times = torch.tensor([1.0, 0.0]).double()
    latent, trace = theirs.odeint(exact_dynamics(model), start, times, rtol=1e-9, atol=1e-9, method="dopri5")
    wanted = -0.5 * latent[-1].square().sum(1) - 1.5 * math.log(2 * math.pi) + trace[-1] + model.standard.log_det()
    with torch.no_grad():
        drawn = model.log_prob(x.repeat(500, 1), generator=torch.Generator().manual_seed(0)).reshape(500, 4)
    error = drawn.std(0) / math.sqrt(500)
    assert bool(((drawn.mean(0) - wanted).abs() < 5 * error).all())
    assert float(error.min()) > 0
