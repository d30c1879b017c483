"""Each law of autoencoders is shown a model that breaks it; healthy ones keep them all."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from deepcanon.core import Batch, Terms, UsageError
from deepcanon.laws import autoencoder as laws
from deepcanon.laws import check, report
from deepcanon.laws.outcome import Law, Outcome
from deepcanon.models.autoencoders.autoencoder import Autoencoder
from deepcanon.models.variational.vae import VAE


def verdict(law: Law, cls: Any) -> Outcome:
    torch.manual_seed(0)
    found = law(*cls.example())
    assert found is not None
    return found


def fails(law: Law, cls: Any) -> bool:
    return not verdict(law, cls).holds


class Linear(Autoencoder):
    @classmethod
    def example(cls) -> Any:
        return cls(features=4, latent=1, hidden=()), super().example()[1]


class Tied(Autoencoder):
    @classmethod
    def example(cls) -> Any:
        return cls(features=4, latent=2, hidden=(8, 6), activation="tanh", tied=True), super().example()[1]


class Wide(Autoencoder):
    """A code with more values than an example: there is no bottleneck."""

    @classmethod
    def example(cls) -> Any:
        return cls(features=4, latent=6), super().example()[1]


class Plain(nn.Module):
    """Not a deepcanon model: images through a convolution, and no loss."""

    def __init__(self) -> None:
        super().__init__()
        self.there = nn.Conv2d(1, 2, 4, stride=4)
        self.back = nn.ConvTranspose2d(2, 1, 4, stride=4)

    def encode(self, x: Tensor) -> Tensor:
        code: Tensor = self.there(x)
        return code

    def decode(self, z: Tensor) -> Tensor:
        x: Tensor = self.back(z)
        return x

    @classmethod
    def example(cls) -> tuple["Plain", Batch]:
        return cls(), Batch(torch.rand(6, 1, 8, 8, generator=Generator().manual_seed(0)))


@pytest.mark.parametrize(("model", "count"), [(Autoencoder, 8), (Linear, 8), (Tied, 8), (Wide, 7), (Plain, 5)])
def test_healthy_models_keep_the_laws(model: Any, count: int) -> None:
    torch.manual_seed(0)
    found = check(model, "autoencoder")
    assert all(outcome.holds for outcome in found), report(found)
    assert len(found) == count


def test_codes_that_are_distributions_count_by_their_means() -> None:
    torch.manual_seed(0)
    found = laws.check_autoencoder(*VAE.example())[:6]
    assert all(outcome.holds for outcome in found), report(found)


class LosesRows(Autoencoder):
    def decode(self, z: Tensor) -> Tensor:
        return super().decode(z)[1:]


class DividesByZero(Autoencoder):
    def encode(self, x: Tensor) -> Tensor:
        return super().encode(x) / 0.0


def test_codes_without_their_shape_or_value_are_caught() -> None:
    for mutant in (LosesRows, DividesByZero):
        assert fails(laws.codes_and_reconstructions_have_their_shapes, mutant), mutant


class GoesAnotherWay(Autoencoder):
    """``forward`` adds what ``decode`` does not."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).sigmoid()


class Mixes(Autoencoder):
    """Rows and columns change places when an example gets its shape back."""

    def reconstruct(self, x: Tensor) -> Tensor:
        mixed: Tensor = self(x).T.reshape(x.shape)
        return mixed


def test_a_reconstruction_that_is_not_decode_of_encode_is_caught() -> None:
    for mutant in (GoesAnotherWay, Mixes):
        assert fails(laws.reconstruction_is_decoding_the_code, mutant), mutant


class Remembers(Autoencoder):
    """A skip connection from the encoder to the decoder, which bypasses the code."""

    seen: Tensor | None = None

    def encode(self, x: Tensor) -> Tensor:
        self.seen = x.flatten(1)
        return super().encode(x)

    def decode(self, z: Tensor) -> Tensor:
        skip = 0.0 if self.seen is None or len(self.seen) != len(z) else 0.1 * self.seen
        return super().decode(z) + skip


class Skips(Autoencoder):
    """The input itself is added on the way out."""

    def reconstruct(self, x: Tensor) -> Tensor:
        return super().reconstruct(x) + 0.1 * x


def test_what_bypasses_the_code_is_caught() -> None:
    assert fails(laws.decoding_needs_the_code_alone, Remembers)
    for mutant in (Remembers, Skips):
        assert fails(laws.bottleneck_limits_the_rank, mutant), mutant


class Noisy(Autoencoder):
    """Noise on the input that eval mode does not switch off."""

    def encode(self, x: Tensor) -> Tensor:
        return super().encode(x + 0.1 * torch.randn_like(x))


class AlwaysDrops(Autoencoder):
    def decode(self, z: Tensor) -> Tensor:
        return super().decode(F.dropout(z, 0.5, training=True))


def test_noise_in_eval_mode_is_caught() -> None:
    for mutant in (Noisy, AlwaysDrops):
        assert fails(laws.same_input_same_code, mutant), mutant


class CentersTheBatch(Autoencoder):
    """Centering by the batch at hand in place of the training data."""

    def encode(self, x: Tensor) -> Tensor:
        return super().encode(x - x.mean(0))


class MultipliesByZero(Autoencoder):
    """Other examples enter with the factor zero, through which NaN passes."""

    def decode(self, z: Tensor) -> Tensor:
        return super().decode(z + 0 * z.sum(0))


def test_examples_that_mix_are_caught() -> None:
    for mutant in (CentersTheBatch, MultipliesByZero):
        assert fails(laws.examples_do_not_mix, mutant), mutant


class TiedHalfway(Tied):
    """The weights are tied, but the decoder gives them no gradient: only one of the two parts of the sum."""

    def decode(self, z: Tensor) -> Tensor:
        (*_, last) = self.decoder
        hidden = self.decoder[:-1](z)
        return F.linear(hidden, self.encoder[0].weight.detach().T, last.bias)  # type: ignore[operator, arg-type]


class CutsTheCode(Autoencoder):
    """The encoder gets no gradient."""

    def encode(self, x: Tensor) -> Tensor:
        return super().encode(x).detach()


def test_a_gradient_that_is_cut_off_is_caught() -> None:
    for mutant in (TiedHalfway, CutsTheCode):
        assert fails(laws.gradient_is_the_slope, mutant), mutant


class AimsAtTheMean(Autoencoder):
    def loss(self, batch: Batch) -> Terms:
        return {"reconstruction": (self(batch.x) - batch.x.mean(0)).square().sum(-1).mean()}


class Backwards(Autoencoder):
    """The sign of the error is wrong."""

    def loss(self, batch: Batch) -> Terms:
        return {"reconstruction": -super().loss(batch)["reconstruction"]}


class Collapses(Autoencoder):
    """The decoder has only positive values, and half of the data are negative."""

    def decode(self, z: Tensor) -> Tensor:
        return super().decode(z).relu()


@pytest.mark.slow
def test_what_cannot_learn_two_examples_is_caught() -> None:
    for mutant in (AimsAtTheMean, Backwards, Collapses):
        assert fails(laws.learns_two_examples_by_heart, mutant), mutant


def test_the_kind_needs_its_methods() -> None:
    with pytest.raises(UsageError, match="encode, decode is missing"):
        laws.check_autoencoder(nn.Linear(1, 1), Batch(torch.zeros(1, 1)))
