"""Each law of methods is shown a model that breaks it and names the fault."""

from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.distributions import Distribution, Independent, Normal

from deepcanon.core import Batch, Context, How, Labeled, Model, Terms, draw
from deepcanon.core.toy import Toy
from deepcanon.laws.interface import (
    examples_do_not_mix,
    generator_is_honored,
    maps_are_deterministic,
    methods_have_their_shapes,
    works_on_the_meta_device,
)
from deepcanon.laws.outcome import Law, Outcome
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.models.variational.vae import VAE


def verdict(law: Law, cls: type[Model[Any]]) -> Outcome:
    torch.manual_seed(0)
    found = law(*cls.example())
    assert found is not None
    return found


class OneNumberInAll(Toy):
    def log_prob(self, x: Tensor, **options: Any) -> Tensor:
        return super().log_prob(x).mean()


class ProbabilityAsMode(MLP):
    def predict(self, *inputs: Tensor, how: How = "mode", generator: Generator | None = None) -> Tensor:
        return super().predict(*inputs, how="mean")


class UnknownLikelihoodKind(Toy):
    likelihood_kind = "certain"  # type: ignore[assignment]


class HalfASample(Toy):
    def sample(self, n: int, *, context: Context | None = None, generator: Generator | None = None) -> Tensor:
        return super().sample(n, generator=generator)[:, :1]


class NeverNothing(Toy):
    def sample(self, n: int, *, context: Context | None = None, generator: Generator | None = None) -> Tensor:
        return super().sample(max(1, n), generator=generator)


def test_wrong_shapes_are_named() -> None:
    assert "log_prob gives () where (32,) is expected" in verdict(methods_have_their_shapes, OneNumberInAll).detail
    assert "predict mode gives (32, 2)" in verdict(methods_have_their_shapes, ProbabilityAsMode).detail
    assert "needs a likelihood_kind" in verdict(methods_have_their_shapes, UnknownLikelihoodKind).detail
    assert "sample(5) gives (5, 1)" in verdict(methods_have_their_shapes, HalfASample).detail
    assert "sample(0) gives (1, 2)" in verdict(methods_have_their_shapes, NeverNothing).detail
    for mutant in (NeverNothing, OneNumberInAll, ProbabilityAsMode, UnknownLikelihoodKind, HalfASample):
        assert not verdict(methods_have_their_shapes, mutant).holds
    for healthy in (Toy, MLP, VAE):
        assert verdict(methods_have_their_shapes, healthy).holds


class IgnoresItsGenerator(Toy):
    def sample(self, n: int, *, context: Context | None = None, generator: Generator | None = None) -> Tensor:
        return super().sample(n)


class HalfIgnoresItsGenerator(VAE):
    """The latent point comes from the generator, the rest from the global one."""

    def sample(self, n: int, *, context: Context | None = None, generator: Generator | None = None) -> Tensor:
        return draw(self.decode(draw(self.prior(), generator, (n,))))


class Reparameterizes(VAE):
    """The bound draws from the global generator whatever it is given."""

    def log_prob(
        self, x: Tensor, *, context: Context | None = None, samples: int | None = None,
        generator: Generator | None = None,
    ) -> Tensor:  # fmt: skip
        return super().log_prob(x, samples=samples)


class AlwaysTheSame(Toy):
    def sample(self, n: int, *, context: Context | None = None, generator: Generator | None = None) -> Tensor:
        return super().sample(n, generator=Generator().manual_seed(3))


class Rewinds(Toy):
    """It reads the generator's state but never moves it on."""

    def sample(self, n: int, *, context: Context | None = None, generator: Generator | None = None) -> Tensor:
        copied = Generator()
        if generator is not None:
            copied.set_state(generator.get_state())
        return super().sample(n, generator=copied)


class WastesGlobalNumbers(Toy):
    def sample(self, n: int, *, context: Context | None = None, generator: Generator | None = None) -> Tensor:
        torch.rand(1)
        return super().sample(n, generator=generator)


class Certain(MLP):
    """Gives one class all of the probability, so that all samples are the same."""

    def predict(self, *inputs: Tensor, how: How = "mode", generator: Generator | None = None) -> Tensor:
        mode = super().predict(*inputs)
        return nn.functional.one_hot(mode, 2).float() if how == "mean" else mode


class OnlySaysTheMode(MLP):
    """Draws as if it were certain, which it is not."""

    def predict(self, *inputs: Tensor, how: How = "mode", generator: Generator | None = None) -> Tensor:
        return super().predict(*inputs, how="mode" if how == "sample" else how)


def test_certain_draws_are_distinguished_from_draws_that_ignore_their_generator() -> None:
    assert verdict(generator_is_honored, Certain).holds
    found = verdict(generator_is_honored, OnlySaysTheMode)
    assert not found.holds
    assert "predict sample gives the same values with another generator" in found.detail


def test_generators_that_are_not_honored_are_named() -> None:
    faults: dict[type[Model[Any]], str] = {
        IgnoresItsGenerator: "sample gives other values with the same generator",
        HalfIgnoresItsGenerator: "sample gives other values with the same generator",
        Reparameterizes: "log_prob gives other values with the same generator",
        AlwaysTheSame: "sample gives the same values with another generator",
        Rewinds: "sample gives the same values with another generator",
        WastesGlobalNumbers: "sample moves the global generator",
    }
    for mutant, words in faults.items():
        found = verdict(generator_is_honored, mutant)
        assert not found.holds, mutant
        assert words in found.detail
    for healthy in (Toy, MLP, VAE):
        assert verdict(generator_is_honored, healthy).holds


class EncodesAtRandom(VAE):
    def reconstruct(self, x: Tensor) -> Tensor:
        return self.decode(self.encode(x).sample()).mean


class DropsOutInEval(MLP):
    def forward(self, x: Tensor) -> Tensor:
        return torch.nn.functional.dropout(super().forward(x), 0.5, training=True)


def test_a_map_that_is_random_is_named() -> None:
    assert "reconstruct gives other values" in verdict(maps_are_deterministic, EncodesAtRandom).detail
    assert "forward gives other values" in verdict(maps_are_deterministic, DropsOutInEval).detail
    for mutant in (EncodesAtRandom, DropsOutInEval):
        assert not verdict(maps_are_deterministic, mutant).holds
    for healthy in (Toy, MLP, VAE):
        assert verdict(maps_are_deterministic, healthy).holds


class CentersTheBatch(MLP):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x - x.mean(0))


class EncodesTogether(VAE):
    def encode(self, x: Tensor) -> Distribution:
        q = super().encode(x)
        return Independent(Normal(q.mean, q.stddev.mean(0, keepdim=True).expand_as(q.mean)), 1)


def test_a_map_that_mixes_examples_is_named() -> None:
    for mutant in (CentersTheBatch, EncodesTogether):
        assert not verdict(examples_do_not_mix, mutant).holds
    assert "encode of example" in verdict(examples_do_not_mix, EncodesTogether).detail
    for healthy in (Toy, MLP, VAE):
        assert verdict(examples_do_not_mix, healthy).holds


class LeavesATensorBehind(MLP):
    """A weight that is a plain attribute stays on the CPU; torch's own meta kernel of linear does not notice."""

    def __init__(
        self, features: int, classes: int | None = None, targets: int | None = None, hidden: tuple[int, ...] = (8,)
    ) -> None:
        super().__init__(features, classes, targets, hidden)
        self.mixing = torch.eye(features)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(torch.nn.functional.linear(x, self.mixing))


class DrawsOnTheCPU(Toy):
    def sample(self, n: int, *, context: Context | None = None, generator: Generator | None = None) -> Tensor:
        return torch.randn(n, 2, generator=generator)


def test_tensors_left_on_the_cpu_are_named() -> None:
    assert "left on the CPU" in verdict(works_on_the_meta_device, LeavesATensorBehind).detail
    assert "sample comes back on the CPU" in verdict(works_on_the_meta_device, DrawsOnTheCPU).detail
    for mutant in (LeavesATensorBehind, DrawsOnTheCPU):
        assert not verdict(works_on_the_meta_device, mutant).holds
    for healthy in (Toy, MLP, VAE):
        assert verdict(works_on_the_meta_device, healthy).holds


class LooksAtValues(Toy):
    def sample(self, n: int, *, context: Context | None = None, generator: Generator | None = None) -> Tensor:
        x = super().sample(n, generator=generator)
        return x if float(x.sum()) > 0 else -x


def test_what_depends_on_values_is_exempt_by_name() -> None:
    found = verdict(works_on_the_meta_device, LooksAtValues)
    assert found.holds
    assert "exempt: sample (no meta kernel: aten::_local_scalar_dense)" in found.detail


class Silent(Model[Batch]):
    """No method at all."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(()))

    @classmethod
    def example(cls) -> Any:
        return cls(), Batch(torch.ones(2, 2))

    def loss(self, batch: Batch) -> Terms:
        return {"x": self.weight * batch.x.mean()}


def test_laws_of_methods_do_not_apply_to_a_model_without_any() -> None:
    model, batch = Silent.example()
    assert methods_have_their_shapes(model, batch) is None
    assert generator_is_honored(model, batch) is None
    assert examples_do_not_mix(model, Labeled(torch.ones(1, 2), torch.zeros(1))) is None
