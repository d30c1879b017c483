"""NICE: inverse, volume, a Gaussian in closed form where its shifts are linear, and a recipe that fits."""

import pytest
import torch
from scipy import stats
from torch import Tensor, nn

import deepcanon as dc
from deepcanon.core import Batch, UsageError
from deepcanon.models.flows.nice import NICE


def flow(features: int, couplings: int = 5, hidden: tuple[int, ...] = (16, 16)) -> NICE:
    """One that is far from the identity, on data with a unit of their own."""
    torch.manual_seed(0)
    model = NICE(features, couplings, hidden)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    model.prepare([Batch(3 * torch.randn(100, features) + 1)])
    return model


@pytest.mark.parametrize(("features", "couplings"), [(2, 1), (2, 6), (5, 4), (7, 5)])
def test_to_data_inverts_to_latent_both_ways(features: int, couplings: int) -> None:
    model = flow(features, couplings)
    x, z = 3 * torch.randn(64, features) + 1, torch.randn(64, features)
    with torch.no_grad():
        assert torch.allclose(model.to_data(model.encode(x)), x, atol=1e-5 * float(x.abs().max()))
        assert torch.allclose(model.encode(model.to_data(z)), z, atol=1e-5 * float(z.abs().max()))


def test_the_volume_changes_everywhere_alike_and_as_the_jacobian_says() -> None:
    model = flow(5, 4).double()
    x = 3 * torch.randn(4, 5, dtype=torch.float64)
    _, claimed = model.to_latent(x)
    assert torch.equal(claimed, claimed[:1].expand(4))
    for row in x:
        jacobian = torch.autograd.functional.jacobian(lambda v: model.encode(v.unsqueeze(0)).squeeze(0), row)
        assert torch.linalg.slogdet(jacobian).logabsdet.item() == pytest.approx(claimed[0].item(), abs=1e-10)


def test_with_linear_shifts_it_is_a_gaussian() -> None:
    """Then z = A x + b, so that x has the mean -b / A and the covariance of A's inverse; scipy has its density."""
    model = flow(3, 4, hidden=()).double()
    x = 3 * torch.randn(10, 3, dtype=torch.float64)
    with torch.no_grad():
        b = model.encode(torch.zeros(1, 3, dtype=torch.float64))
        a = (model.encode(torch.eye(3, dtype=torch.float64)) - b).T
        inverse = torch.linalg.inv(a)
        expected = stats.multivariate_normal((-inverse @ b[0]).numpy(), (inverse @ inverse.T).numpy()).logpdf(x.numpy())
        torch.testing.assert_close(model.log_prob(x), torch.from_numpy(expected), rtol=0, atol=1e-9)


@pytest.mark.parametrize(("features", "couplings"), [(2, 3), (5, 4)])
def test_the_couplings_of_nflows_with_the_same_weights_give_the_same_density(features: int, couplings: int) -> None:
    theirs = pytest.importorskip("nflows.transforms", reason="needs nflows, of deepcanon[oracles]")
    model = flow(features, couplings).double()
    with torch.no_grad():
        model.log_scale.normal_()
    place = torch.arange(float(features), dtype=torch.float64)
    read, changed = (half[0].long() for half in model._split(place[None]))
    layers = []
    for net in model.nets:
        mask = torch.zeros(features).index_fill(0, changed, 1.0)
        layers.append(theirs.AdditiveCouplingTransform(mask, lambda *sizes, net=net: WithContext(net)).double())
        read, changed = changed, read
    x = 3 * torch.randn(16, features, dtype=torch.float64) + 1
    with torch.no_grad():
        z, volume = theirs.CompositeTransform(layers)(model.standard(x))
        z = z * model.log_scale.exp()
        expected = stats.norm.logpdf(z.numpy()).sum(1) + volume.numpy()
        expected += (model.log_scale.sum() + model.standard.log_det()).numpy()
        torch.testing.assert_close(model.log_prob(x), torch.from_numpy(expected), rtol=1e-10, atol=1e-10)


class WithContext(nn.Module):
    """A network as nflows calls it."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor, context: None) -> Tensor:
        shift: Tensor = self.net(x)
        return shift


def test_one_feature_has_no_halves() -> None:
    with pytest.raises(UsageError, match="nice couples two halves: features must be at least 2"):
        NICE(1)


@pytest.mark.slow
def test_the_recipe_fits_moons_better_than_a_gaussian() -> None:
    """By at least half a nat, after an eighth of the epochs."""
    torch.manual_seed(0)
    data = dc.load_data("moons")
    result = dc.fit(NICE(2), data, epochs=8, quiet=True)
    gaussian = stats.multivariate_normal(data.train.x.mean(0).numpy(), data.train.x.T.cov().numpy())
    assert result.test["nll"] < -gaussian.logpdf(data.split("test").x.numpy()).mean() - 0.5
