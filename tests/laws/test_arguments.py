"""The law of arguments is shown models that ignore one, and names it."""

from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn

from deepcanon.core import Context, How, UsageError
from deepcanon.core.toy import Toy
from deepcanon.decoding import Beams
from deepcanon.laws.arguments import optional_arguments_matter
from deepcanon.laws.outcome import Outcome
from deepcanon.models.analytic.gaussian import Gaussian
from deepcanon.models.attention.gpt import GPT
from deepcanon.models.diffusion.ddpm import DDPM
from deepcanon.models.diffusion.guided_ddpm import GuidedDDPM
from deepcanon.models.energy.hopfield import Hopfield
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.models.recurrent.seq2seq_attention import Seq2SeqAttention
from deepcanon.models.variational.conditional_vae import ConditionalVAE
from deepcanon.models.variational.vae import VAE


class IgnoresItsContext(Toy):
    def sample(self, n: int, *, context: Context | None = None, generator: Generator | None = None) -> Tensor:
        return super().sample(n, generator=generator)


class IgnoresItsClasses(GuidedDDPM):
    """The context is accepted, checked and dropped."""

    def _output(self, net: nn.Module, x: Tensor, time: Tensor) -> Tensor:
        return GuidedDDPM._output(self._view(None), net, x, time)


class SamplesAnyClass(ConditionalVAE):
    """Likelihoods are of the class that is asked for, samples are not."""

    def sample(self, n: int, *, context: Context | None = None, generator: Generator | None = None) -> Tensor:
        return super().sample(n, context=0 if context is not None else None, generator=generator)  # type: ignore[arg-type]


class TakesAContext(Gaussian):
    """An exact density, which refuses a generator, and drops a context."""

    def log_prob(self, x: Tensor, *, context: Context | None = None, **options: Any) -> Tensor:
        return super().log_prob(x, **options)


class TakesOneSample(VAE):
    def _estimate(self, x: Tensor, samples: int | None, generator: Generator | None) -> Tensor:
        return super()._estimate(x, None, generator)


class DrawsFromTheGlobalGenerator(VAE):
    def _estimate(self, x: Tensor, samples: int | None, generator: Generator | None) -> Tensor:
        torch.manual_seed(0)
        return super()._estimate(x, samples, None)


class AlwaysTheMode(MLP):
    def predict(self, *inputs: Tensor, how: How = "mode", generator: Generator | None = None) -> Tensor:
        return super().predict(*inputs)


class SearchesWithOneBeam(GPT):
    def beam_search(self, prompt: Tensor, steps: int, *, beams: int = 4, **options: Any) -> Beams:
        return super().beam_search(prompt, steps, beams=1, **options)


class SearchesOn(GPT):
    """The stop token stops nothing."""

    def beam_search(self, prompt: Tensor, steps: int, *, stop: int | None = None, **options: Any) -> Beams:
        return super().beam_search(prompt, steps, **options)


class AlwaysDeterministic(DDPM):
    def ddim(self, n: int, steps: int = 20, *, eta: float = 0.0, generator: Generator | None = None) -> Tensor:
        return super().ddim(n, steps, generator=generator)


class UpdatesInOneOrder(Hopfield):
    def _order(self, generator: Generator | None) -> list[int]:
        return super()._order(None)


class AlignsPadding(Seq2SeqAttention):
    """The source is read to its end, however short it is said to be."""

    def alignment(self, x: Tensor, y: Tensor, *, lengths: Tensor | None = None, **options: Any) -> Tensor:
        return super().alignment(x, y, **options)


class HasAnOptionOfItsOwn(MLP):
    def predict(
        self, *inputs: Tensor, how: How = "mode", generator: Generator | None = None, politely: bool = False
    ) -> Tensor:
        return super().predict(*inputs, how=how, generator=generator)


def verdict(cls: Any) -> Outcome:
    torch.manual_seed(0)
    found = optional_arguments_matter(*cls.example())
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("cls", "fault"),
    [
        (IgnoresItsContext, "sample ignores context"),
        (IgnoresItsClasses, "sample ignores context; log_prob ignores context; score ignores context"),
        (SamplesAnyClass, "sample ignores context"),
        (TakesAContext, "log_prob ignores context"),
        (TakesOneSample, "log_prob ignores samples"),
        (DrawsFromTheGlobalGenerator, "log_prob ignores generator"),
        (AlwaysTheMode, "predict ignores how"),
        (SearchesWithOneBeam, "beam_search ignores beams"),
        (SearchesOn, "beam_search ignores stop"),
        (AlwaysDeterministic, "ddim ignores eta"),
        (UpdatesInOneOrder, "retrieve ignores generator"),
        (AlignsPadding, "alignment ignores lengths"),
    ],
)
def test_an_argument_that_is_ignored_is_named(cls: Any, fault: str) -> None:
    found = verdict(cls)
    assert not found.holds
    assert fault in found.detail


@pytest.mark.parametrize("cls", [Toy, GuidedDDPM, ConditionalVAE, VAE, MLP, GPT, DDPM, Hopfield])
def test_arguments_that_matter_or_are_refused_keep_it(cls: Any) -> None:
    assert verdict(cls).holds


def test_an_argument_that_the_law_does_not_know_is_said_to_be_missing() -> None:
    found = verdict(HasAnOptionOfItsOwn)
    assert not found.holds
    assert "no two values of 'politely'" in found.detail


def test_a_model_that_is_not_conditional_refuses_a_context_in_one_sentence() -> None:
    model, batch = Toy.example()
    with pytest.raises(UsageError, match="is not a conditional model and takes no context; leave it out"):
        model.sample(2, context=torch.zeros(2))
    with pytest.raises(UsageError, match="is exact and draws nothing; leave out samples"):
        model.log_prob(batch.x, samples=3)
    with pytest.raises(UsageError, match="is exact and draws nothing; leave out generator"):
        model.log_prob(batch.x, generator=Generator())
