"""Games on a known pair: value, discriminator and gradients against quadrature; modes that are counted."""

import math

import pytest
import torch
from torch import Generator, Tensor
from torch.distributions import Normal

from deepcanon.data.sets.plane_points import centers
from deepcanon.models.adversarial.gan import GAN
from deepcanon.models.adversarial.wgan import WGAN
from deepcanon.studies.games import covered, known_pair, twice_js


@pytest.mark.parametrize("distance", [0.5, 3.0])
def test_on_a_known_pair_the_numbers_are_those_of_theory(distance: float) -> None:
    torch.manual_seed(0)
    found = known_pair(GAN, WGAN, distance)
    assert found["value"] == pytest.approx(found["exact"], abs=0.01)
    assert found["error"] < 0.03
    x = torch.linspace(-12, 12, 20_001, dtype=torch.float64)
    q, odds = Normal(0.0, 1.0).log_prob(x).exp(), distance * (x - distance / 2)
    exact = {
        "minimax": torch.trapezoid(q * odds.sigmoid(), x).item() * distance,
        "non_saturating": torch.trapezoid(q * (-odds).sigmoid(), x).item() * distance,
        "wasserstein": 1.0,
    }
    for game, gradient in found["gradients"].items():
        assert gradient == pytest.approx(exact[game], rel=0.05)


def test_the_divergence_is_that_of_a_mixture_by_simulation() -> None:
    x = torch.randn(400_000, 2, dtype=torch.float64, generator=Generator().manual_seed(0))
    odds = 1.5 * (x - torch.tensor([-0.75, 0.75])).double()  # of samples of p, shifted to N(1.5, 1), and of q
    logs = torch.nn.functional.logsigmoid(torch.stack([odds[:, 0], -odds[:, 1]]))
    assert twice_js(1.5) == pytest.approx(math.log(4) + logs.mean(1).sum().item(), abs=0.005)


class Draws:
    """A sampler of the modes of these numbers only."""

    def __init__(self, modes: list[int]) -> None:
        self.modes = torch.tensor(modes)

    def sample(self, n: int, generator: Generator) -> Tensor:
        place = torch.randint(len(self.modes), (n,), generator=generator)
        return centers()[self.modes[place]] + 0.1 * torch.randn(n, 2, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("count", [1, 5, 8])
def test_modes_are_counted(count: int) -> None:
    assert covered(Draws(list(range(count))), 0) == count
