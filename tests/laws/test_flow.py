"""Each law of flows is shown a flow that breaks it; healthy ones, ours and those of other libraries, keep them all."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn

from deepcanon.core import Batch, Context, LikelihoodKind, UsageError, drawing_from
from deepcanon.laws import continuous, report, sampler
from deepcanon.laws import flow as laws
from deepcanon.laws.outcome import Law
from deepcanon.models.flows.conditional_glow import ConditionalGlow
from deepcanon.models.flows.planar import PlanarFlow
from deepcanon.models.flows.realnvp import RealNVP


def fails(law: Law, cls: Any) -> bool:
    torch.manual_seed(0)
    found = law(*cls.example())
    assert found is not None
    return not found.holds


class OfZuko(nn.Module):
    """A flow of zuko with the methods of the laws."""

    def __init__(self, flow: Any) -> None:
        super().__init__()
        self.flow = flow

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z, log_det = self.flow().transform.call_and_ladj(x)
        return z, log_det

    def to_data(self, z: Tensor) -> Tensor:
        x: Tensor = self.flow().transform.inv(z)
        return x

    def log_prob(self, x: Tensor) -> Tensor:
        density: Tensor = self.flow().log_prob(x)
        return density

    def sample(self, n: int, *, generator: Generator | None = None) -> Tensor:
        with drawing_from(generator):
            x: Tensor = self.flow().sample((n,))
        return x


class OfNflows(nn.Module):
    """A flow of nflows with the methods of the laws."""

    def __init__(self, flow: Any) -> None:
        super().__init__()
        self.flow = flow

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z, log_det = self.flow._transform(x)
        return z, log_det

    def to_data(self, z: Tensor) -> Tensor:
        x: Tensor = self.flow._transform.inverse(z)[0]
        return x

    def log_prob(self, x: Tensor) -> Tensor:
        density: Tensor = self.flow.log_prob(x)
        return density

    def sample(self, n: int, *, generator: Generator | None = None) -> Tensor:
        dtype = next(self.parameters()).dtype
        z = torch.randn(n, 2, generator=generator, dtype=dtype)  # its own sampler draws in single precision only
        return self.to_data(z)


def zuko() -> Any:
    return pytest.importorskip("zuko.flows", reason="needs zuko, of deepcanon[oracles]")


def nflows(part: str) -> Any:
    return pytest.importorskip(f"nflows.{part}", reason="needs nflows, of deepcanon[oracles]")


def nflows_realnvp() -> nn.Module:
    transforms = nflows("transforms")
    net = partial(nflows("nn.nets").ResidualNet, hidden_features=8, num_blocks=1)
    layers = [transforms.AffineCouplingTransform(mask, net) for mask in ([-1, 1], [1, -1]) * 2]
    normal = nflows("distributions").StandardNormal([2])
    return OfNflows(nflows("flows").Flow(transforms.CompositeTransform(layers), normal))


def nflows_maf() -> nn.Module:
    transforms = nflows("transforms")
    kind = transforms.MaskedAffineAutoregressiveTransform
    layers = [kind(2, 8), transforms.ReversePermutation(2), kind(2, 8)]
    normal = nflows("distributions").StandardNormal([2])
    return OfNflows(nflows("flows").Flow(transforms.CompositeTransform(layers), normal))


PEERS = {
    "zuko RealNVP": lambda: OfZuko(zuko().RealNVP(2, transforms=4, hidden_features=(8, 8))),
    "zuko MAF": lambda: OfZuko(zuko().MAF(2, transforms=2, hidden_features=(8, 8))),
    "nflows RealNVP": nflows_realnvp,
    "nflows MAF": nflows_maf,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ours", *PEERS])
def test_healthy_flows_keep_the_laws_of_flows_densities_and_samplers(name: str) -> None:
    torch.manual_seed(0)
    ours, batch = RealNVP.example()
    module: nn.Module = ours if name == "ours" else PEERS[name]()
    found = laws.check_flow(module, batch)
    assert all(outcome.holds for outcome in found), report(found)
    assert len(found) == (7 if name == "ours" else 6)  # peers have no to_uniform
    found = continuous.check_continuous(module, batch) + sampler.check_sampler(module, batch)
    assert all(outcome.holds for outcome in found), report(found)
    assert {"density integrates to one", "steins identity holds on own samples", "samples follow the density"} <= {
        outcome.law for outcome in found
    }


class Mutant(RealNVP):
    """A flow whose couplings go wrong in one place; ``forwards`` and ``back`` are one coupling each."""

    def forwards(self, b: Tensor, s: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        return b * s.exp() + t, s

    def back(self, b: Tensor, s: Tensor, t: Tensor) -> Tensor:
        return (b - t) * (-s).exp()

    def swapped(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return b, a

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = self._split(self.standard(x))
        log_det = self.standard.log_det() + x.new_zeros(len(x))
        for i in range(len(self.nets)):
            s, t = self._couple(i, a)
            b, change = self.forwards(b, s, t)
            a, b = self.swapped(a, b)
            log_det = log_det + change.sum(-1)
        return self._join(a, b), log_det

    def to_data(self, z: Tensor) -> Tensor:
        a, b = self._split(z)
        for i in reversed(range(len(self.nets))):
            a, b = self.swapped(a, b)
            s, t = self._couple(i, a)
            b = self.back(b, s, t)
        return self.standard.inverse(self._join(a, b))


def test_the_mutants_without_a_mutation_are_healthy() -> None:
    torch.manual_seed(0)
    found = laws.check_flow(*Mutant.example())
    assert all(outcome.holds for outcome in found), report(found)


class InverseMultiplies(Mutant):
    """The inverse takes x F - H where (x - H) / F belongs."""

    def back(self, b: Tensor, s: Tensor, t: Tensor) -> Tensor:
        return b * s.exp() - t


class InverseShiftsLast(Mutant):
    def back(self, b: Tensor, s: Tensor, t: Tensor) -> Tensor:
        return b * (-s).exp() - t


class ScaleMayVanish(Mutant):
    """The factor is the network's output itself and not its exponential: it may be negative or zero."""

    def forwards(self, b: Tensor, s: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        return b * s + t, s.log()

    def back(self, b: Tensor, s: Tensor, t: Tensor) -> Tensor:
        return (b - t) / s


class SumsFactors(Mutant):
    """The log-determinant sums the factors, not their logarithms."""

    def forwards(self, b: Tensor, s: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        return b * s.exp() + t, s.exp()


class VolumeUpsideDown(Mutant):
    def forwards(self, b: Tensor, s: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        return b * s.exp() + t, -s


class ForgetsTheUnits(RealNVP):
    """The volume of the standardization is left out."""

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z, log_det = super().to_latent(x)
        return z, log_det - self.standard.log_det()

    @classmethod
    def example(cls) -> Any:
        model, batch = super().example()
        model.prepare([batch])
        return model, batch


def test_a_wrong_inverse_is_caught() -> None:
    for mutant in (InverseMultiplies, InverseShiftsLast):
        assert fails(laws.to_data_inverts_to_latent, mutant), mutant
        assert fails(laws.samples_come_from_noise, mutant), mutant
    assert fails(continuous.steins_identity_holds_on_own_samples, InverseMultiplies)


@pytest.mark.slow
def test_a_wrong_volume_is_caught() -> None:
    for mutant in (ScaleMayVanish, SumsFactors, VolumeUpsideDown, ForgetsTheUnits):
        assert fails(laws.log_det_is_that_of_the_jacobian, mutant), mutant
    for mutant in (SumsFactors, VolumeUpsideDown, ForgetsTheUnits):
        assert fails(continuous.density_integrates_to_one, mutant), mutant
    assert fails(continuous.units_only_shift_the_density, ForgetsTheUnits)


class NeverSwaps(Mutant):
    """The halves are never exchanged, so that the first one never changes."""

    def swapped(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return a, b


def test_couplings_that_leave_one_half_alone_are_caught() -> None:
    assert fails(laws.no_latent_value_stays_linear, NeverSwaps)
    assert not fails(laws.log_det_is_that_of_the_jacobian, NeverSwaps)


class Free(RealNVP):
    """The density takes the volume with the wrong sign."""

    def log_prob(self, x: Tensor, **options: Any) -> Tensor:
        _, log_det = self.to_latent(x)
        return super().log_prob(x, **options) - 2 * log_det


class CalledApproximate(RealNVP):
    """The exact density of a flow is given out as an estimate."""

    likelihood_kind: LikelihoodKind = "estimate"

    def _estimate(self, x: Tensor, samples: int | None, generator: Generator | None) -> Tensor:
        return self._log_prob(x)


class CalledABound(CalledApproximate):
    likelihood_kind = "lower bound"


class Drawn(CalledApproximate):
    """An unbiased estimate: noise on the exact density."""

    def _estimate(self, x: Tensor, samples: int | None, generator: Generator | None) -> Tensor:
        return self._log_prob(x) + torch.randn(len(x), generator=generator, dtype=x.dtype)


class DrawnWithBias(Drawn):
    """An estimate with a bias, as of a trace whose random directions have not the covariance I."""

    def _estimate(self, x: Tensor, samples: int | None, generator: Generator | None) -> Tensor:
        return super()._estimate(x, samples, generator) + 0.3


class SamplesWideNoise(RealNVP):
    def sample(self, n: int, *, context: Context | None = None, generator: Generator | None = None) -> Tensor:
        return self.to_data(1.3 * torch.randn(n, 2, generator=generator, dtype=torch.float64))


@pytest.mark.slow
def test_a_wrong_sign_in_the_density_and_wrong_noise_are_caught() -> None:
    assert fails(laws.log_prob_is_the_change_of_variables, Free)
    for mutant in (CalledApproximate, CalledABound, DrawnWithBias):
        assert fails(laws.log_prob_is_the_change_of_variables, mutant), mutant
    assert not fails(laws.log_prob_is_the_change_of_variables, Drawn)
    assert fails(continuous.density_integrates_to_one, Free)
    assert fails(laws.samples_come_from_noise, SamplesWideNoise)
    assert fails(sampler.samples_follow_the_density, SamplesWideNoise)


class Logistic(RealNVP):
    """The integral is that of a logistic distribution, which is close to the normal one."""

    def to_uniform(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z, _ = self.to_latent(x)
        return (1.702 * 1.5 * z).sigmoid(), super().to_uniform(x)[1]


class ForgetsTheSlope(RealNVP):
    """The volume of the integral itself is left out."""

    def to_uniform(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return super().to_uniform(x)[0], self.to_latent(x)[1]


def test_integrals_that_are_not_uniform_are_caught() -> None:
    for mutant in (Logistic, ForgetsTheSlope):
        assert fails(laws.the_probability_integral_is_uniform, mutant), mutant


class CutOff(PlanarFlow):
    """The root that the inverse finds has no gradient, as if it did not depend on the parameters."""

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z, log_det = super().to_latent(x)
        with torch.no_grad():
            root = super().to_latent(x)[0]
        return root + (z - z.detach()) * 0, log_det


def test_a_numeric_inverse_without_gradients_is_caught() -> None:
    assert fails(laws.parameters_get_the_slope_of_the_likelihood, CutOff)
    assert not fails(laws.parameters_get_the_slope_of_the_likelihood, PlanarFlow)


class FirstContext(ConditionalGlow):
    """All examples get the class of the first one."""

    def _told(self, n: int) -> Tensor:
        return super()._told(n)[:1].expand(n, -1)


def test_contexts_that_are_mixed_up_are_caught() -> None:
    assert fails(laws.every_example_has_its_own_context, FirstContext)
    assert not fails(laws.every_example_has_its_own_context, ConditionalGlow)


def test_the_kind_needs_its_methods() -> None:
    with pytest.raises(UsageError, match="to_data, log_prob is missing"):
        laws.check_flow(type("Half", (nn.Module,), {"to_latent": lambda self, x: x})(), Batch(torch.zeros(1, 2)))
