"""The methods that a model may have, always with these signatures; a missing one is absent, not a stub that raises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from torch import Generator, Tensor
from torch.distributions import Distribution

if TYPE_CHECKING:
    from deepcanon.core.conditional import Context  # which takes the names of the methods from here

How = Literal["mode", "mean", "sample"]

Domain = Literal["x", "y"]

METHODS = (
    "predict", "sample", "log_prob", "step_log_probs", "energy", "score", "encode", "decode", "reconstruct", "generate",
    "beam_search", "exact_search", "map", "forecast", "translate",
)  # fmt: skip


def methods_of(model: object) -> tuple[str, ...]:
    """The names of the methods that a model, or a class of models, has.

    >>> from deepcanon.core.toy import Toy
    >>> methods_of(Toy)
    ('sample', 'log_prob')
    """
    return tuple(method for method in METHODS if callable(getattr(model, method, None)))


@runtime_checkable
class Predicts(Protocol):
    """A model with predictions: ``mode``, the most probable output, ``mean``, its expectation, or a ``sample`` of it.

    For classes the mean is their probabilities.
    """

    def predict(self, *inputs: Tensor, how: How = "mode", generator: Generator | None = None) -> Tensor: ...


@runtime_checkable
class Samples(Protocol):
    """A generative model with ``sample``: ``n`` independent draws, (n, ...), or a union of ``n`` graphs."""

    def sample(self, n: int, *, context: Context | None = None, generator: Generator | None = None) -> Tensor: ...


@runtime_checkable
class HasLogProb(Protocol):
    """A model with ``log_prob``, the log-likelihood of each example in nats, (B,).

    ``likelihood_kind`` says whether it is exact, a lower bound, an estimate or unnormalized; more ``samples`` sharpen
    a bound or an estimate.
    """

    @property
    def likelihood_kind(self) -> str: ...

    def log_prob(
        self,
        x: Tensor,
        *,
        context: Context | None = None,
        samples: int | None = None,
        generator: Generator | None = None,
    ) -> Tensor: ...


@runtime_checkable
class HasStepLogProbs(HasLogProb, Protocol):
    """A model of sequences: of its ``log_prob`` the part of each step given all steps before it, (B, T).

    It is zero at a step that is given and in the padding, and the sum over all steps is ``log_prob``.
    """

    def step_log_probs(self, x: Tensor, *, context: Context | None = None) -> Tensor: ...


@runtime_checkable
class HasEnergy(Protocol):
    """An energy-based model: the energy of each example, (B,)."""

    def energy(self, x: Tensor) -> Tensor: ...


@runtime_checkable
class HasScore(Protocol):
    """A score-based model: the gradient of the log-density at ``x``, in the shape of ``x``."""

    def score(self, x: Tensor) -> Tensor: ...


@runtime_checkable
class Encodes(Protocol):
    """A model with an encoder: the posterior of the latent variables of ``x``, their code, or several codes."""

    def encode(self, x: Tensor) -> Distribution | Tensor | tuple[Tensor, ...]: ...


@runtime_checkable
class MapsExamples(Protocol):
    """A map: the points of the training examples, (N, latent), among which ``encode`` puts others."""

    points: Tensor

    def encode(self, x: Tensor) -> Tensor: ...


@runtime_checkable
class Decodes(Protocol):
    """A model with a decoder: the likelihood given the latent variables ``z``, or the decoded examples."""

    def decode(self, z: Tensor) -> Distribution | Tensor: ...


@runtime_checkable
class Reconstructs(Protocol):
    """A model with reconstructions, in the shape of ``x``."""

    def reconstruct(self, x: Tensor) -> Tensor: ...


@runtime_checkable
class Generates(Protocol):
    """An autoregressive model: the ``prompt`` continued by ``steps`` sampled tokens, or up to the token ``stop``."""

    def generate(
        self,
        prompt: Tensor,
        steps: int,
        *,
        context: Context | None = None,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        stop: int | None = None,
        generator: Generator | None = None,
    ) -> Tensor: ...


@runtime_checkable
class Searches(Protocol):
    """An autoregressive model: the most probable continuations of the ``prompt`` by up to ``steps`` tokens, as Beams.

    They end with the token ``stop``, if it is given. A beam search keeps so many ``beams``; an exact search finds the
    ``top`` best of all.
    """

    def beam_search(
        self,
        prompt: Tensor,
        steps: int,
        *,
        context: Context | None = None,
        beams: int = 4,
        stop: int | None = None,
        length_penalty: float = 0.0,
    ) -> Any: ...

    def exact_search(
        self,
        prompt: Tensor,
        steps: int,
        *,
        context: Context | None = None,
        top: int = 1,
        stop: int | None = None,
        length_penalty: float = 0.0,
    ) -> Any: ...


@runtime_checkable
class Maps(Protocol):
    """A model of two domains, x and y: examples of the one mapped ``to`` the other, in their shape."""

    def map(self, x: Tensor, to: Domain = "y") -> Tensor: ...


@runtime_checkable
class Forecasts(Protocol):
    """A model of time series or videos: sample paths of the ``steps`` that follow, (samples, B, steps, ...).

    The ``past`` is a batch of ``Series`` or ``Videos``, or a tensor without padding. A step is the features of a series
    or the channels, height and width of a frame. Covariates are part of the series, and those of the steps to come
    reach beyond the end of the past.
    """

    def forecast(
        self,
        past: Any,
        steps: int,
        *,
        samples: int = 100,
        context: Context | None = None,
        generator: Generator | None = None,
    ) -> Tensor: ...


@runtime_checkable
class Translates(Protocol):
    """A model that writes the most probable target of each source by beam search: tokens (B, T), and lengths (B,).

    A source is a sequence, of which ``lengths`` are given too, or an image, whose target is its caption.
    """

    def translate(
        self, x: Tensor, *, beams: int = 1, length_penalty: float = 0.0, exact: bool = False
    ) -> tuple[Tensor, Tensor]: ...


@runtime_checkable
class Aligns(Translates, Protocol):
    """A model that translates sequences by attention: that of each target token but the first, (B, T - 1, S)."""

    def alignment(
        self, x: Tensor, y: Tensor, *, lengths: Tensor | None = None, y_lengths: Tensor | None = None
    ) -> Tensor: ...


@runtime_checkable
class CrossAttends(Aligns, Protocol):
    """A transformer that translates: the attention of the target to the source, (layers, B, heads, T - 1, S)."""

    def cross_attention_maps(
        self, x: Tensor, y: Tensor, *, lengths: Tensor | None = None, y_lengths: Tensor | None = None
    ) -> Tensor: ...


@runtime_checkable
class Shows(Protocol):
    """A model with a gallery: named rows of examples to show one above the other (stored, corrupted, retrieved ...)."""

    def gallery(self, x: Tensor, *, generator: Generator | None = None) -> dict[str, Tensor]: ...


@runtime_checkable
class HasUpdates(Protocol):
    """A fine-tuned model: of each adapted layer the pretrained weight and the update added to it, both as matrices."""

    def updates(self) -> dict[str, tuple[Tensor, Tensor]]: ...


@runtime_checkable
class HasFilters(Protocol):
    """A model with filters on images, those of its first layer, (count, channels, height, width)."""

    def filters(self) -> Tensor: ...


@runtime_checkable
class HasNeighbors(Protocol):
    """A model with word vectors: nearest words by their cosines, analogies, and all unit vectors, (vocab, latent)."""

    def nearest(self, word: str | int, n: int = 10) -> list[tuple[str, float]]: ...

    def analogy(self, a: str | int, b: str | int, c: str | int, n: int = 10) -> list[tuple[str, float]]: ...

    def directions(self) -> Tensor: ...


@runtime_checkable
class HasTree(Protocol):
    """A hierarchical softmax: the inner nodes and the sides of the paths to all classes, (C, depth), and their counts.

    Without a tree there are no nodes.
    """

    nodes: Tensor
    sides: Tensor
    counts: Tensor


@runtime_checkable
class Attends(Protocol):
    """A transformer: its attention weights, (layers, B, heads, T, T)."""

    def attention_maps(self, x: Tensor) -> Tensor: ...
