"""The engine of restricted Boltzmann machines holds visible units of other families: spins, against enumeration."""

from typing import Self

import pytest
import torch
from torch import Generator, Tensor
from torch.distributions import Bernoulli, Distribution, Independent, constraints

from deepcanon import laws
from deepcanon.core import Batch, DataError, Support, draw
from deepcanon.models.energy._rbm import Harmonium, bernoulli


class Spins(Distribution):
    """Independent spins, -1 and 1, with the natural parameters ``fields``: p is in proportion to exp(fields' v)."""

    arg_constraints = {"fields": constraints.real_vector}  # noqa: RUF012
    support = constraints.real_vector

    def __init__(self, fields: Tensor) -> None:
        self.fields = fields
        self.bits = Independent(Bernoulli(logits=2 * fields, validate_args=False), 1, validate_args=False)
        super().__init__(torch.Size(), fields.shape, validate_args=False)

    def sample(self, sample_shape: torch.Size | list[int] | tuple[int, ...] = ()) -> Tensor:
        return 2 * self.bits.sample(torch.Size(sample_shape)) - 1

    def log_prob(self, value: Tensor) -> Tensor:
        found: Tensor = self.bits.log_prob((value + 1) / 2)
        return found


class SpinRBM(Harmonium[Batch]):
    r"""A restricted Boltzmann machine whose visible units are spins, -1 and 1.

    .. math:: E(v, h) = -v^\top W h - b^\top v - c^\top h \qquad (1)

    References:
        | Information processing in dynamical systems: foundations of harmony theory (Smolensky, 1986)

    Arguments:
        features: The number of spins.
        units: The number of hidden units.
    """

    def __init__(self, features: int, units: int = 4) -> None:
        super().__init__(features, units, 1, True, 16)

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 5, generator=Generator().manual_seed(0)).sign()
        return cls(5), Batch(x)

    @property
    def support(self) -> Support:
        return "spins"

    def _draw_visible(self, natural: Tensor, before: Tensor | None, generator: Generator | None) -> Tensor:
        return 2 * bernoulli((2 * natural).sigmoid(), generator) - 1  # eq. (1)

    def _log_sums(self, natural: Tensor) -> Tensor:
        return torch.logaddexp(natural, -natural)

    def base(self) -> Distribution:
        return Spins(self.origin)


@pytest.mark.slow
def test_a_machine_of_spins_keeps_all_laws() -> None:
    assert laws.kinds_of(SpinRBM) == ["contract", "discrete", "energy"]
    torch.manual_seed(0)
    outcomes = laws.check(SpinRBM)
    assert not [each for each in outcomes if not each.holds], laws.report(outcomes)
    names = {each.law for each in outcomes}
    assert {"probabilities sum to one", "samples follow the probabilities", "other values are refused"} <= names


def test_the_partition_function_of_spins_is_the_sum_over_all_of_them() -> None:
    torch.manual_seed(0)
    model = SpinRBM(4, 3).double()
    torch.nn.init.normal_(model.weight)
    v = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=torch.float64)] * 4)
    h = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * 3)
    pairs = -v @ model.weight @ h.T - (v @ model.visible_bias).unsqueeze(1) - (h @ model.hidden_bias).unsqueeze(0)
    exact = model.exact_log_partition()
    assert exact is not None
    torch.testing.assert_close(exact, (-pairs).flatten().logsumexp(0))
    annealed = model.annealed_log_partition(chains=200, temperatures=200, generator=Generator().manual_seed(0))
    assert abs(float(annealed.value - exact.detach())) < 5 * float(annealed.error)


def test_zeros_and_ones_are_refused_by_spins() -> None:
    model, batch = SpinRBM.example()
    with pytest.raises(DataError, match=r"models spins, -1 and 1.*NAME:spins"):
        model.log_prob((batch.x + 1) / 2)
    assert draw(model.base(), None, (7,)).unique().tolist() == [-1.0, 1.0]
