"""The methods a model may have, always with these signatures. A missing method is absent, never a stub that raises."""

from __future__ import annotations

from typing import Literal, Protocol, Self, runtime_checkable

from torch import Generator, Tensor
from torch.distributions import Distribution

How = Literal["mode", "mean", "sample"]

METHODS = ("predict", "sample", "log_prob", "energy", "score", "encode", "decode", "reconstruct", "generate")


def methods_of(model: object) -> tuple[str, ...]:
    """Which methods a model, or a class of models, has.

    >>> from deepcanon.core.toy import Toy
    >>> methods_of(Toy)
    ('sample', 'log_prob')
    """
    return tuple(method for method in METHODS if callable(getattr(model, method, None)))


@runtime_checkable
class Predicts(Protocol):
    """``mode``: the most probable answer; ``mean``: its expectation, which for classes is their probabilities."""

    def predict(self, *inputs: Tensor, how: How = "mode", generator: Generator | None = None) -> Tensor: ...


@runtime_checkable
class Samples(Protocol):
    def sample(self, n: int, *, context: Tensor | None = None, generator: Generator | None = None) -> Tensor: ...


@runtime_checkable
class HasLogProb(Protocol):
    """``log_prob`` in nats, (B,); ``samples`` sharpens an estimate, ``likelihood_kind`` says what the number is."""

    @property
    def likelihood_kind(self) -> str: ...

    def log_prob(
        self,
        x: Tensor,
        *,
        context: Tensor | None = None,
        samples: int | None = None,
        generator: Generator | None = None,
    ) -> Tensor: ...


@runtime_checkable
class HasEnergy(Protocol):
    def energy(self, x: Tensor) -> Tensor: ...


@runtime_checkable
class HasScore(Protocol):
    def score(self, x: Tensor) -> Tensor: ...


@runtime_checkable
class Encodes(Protocol):
    def encode(self, x: Tensor) -> Distribution | Tensor: ...


@runtime_checkable
class Decodes(Protocol):
    def decode(self, z: Tensor) -> Distribution | Tensor: ...


@runtime_checkable
class Reconstructs(Protocol):
    def reconstruct(self, x: Tensor) -> Tensor: ...


@runtime_checkable
class Generates(Protocol):
    def generate(
        self,
        prompt: Tensor,
        steps: int,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        stop: int | None = None,
        generator: Generator | None = None,
    ) -> Tensor: ...


@runtime_checkable
class Shows(Protocol):
    """Rows of examples worth seeing one above the other, by name (stored, damaged, retrieved ...)."""

    def gallery(self, x: Tensor, *, generator: Generator | None = None) -> dict[str, Tensor]: ...


@runtime_checkable
class ClassConditional(Protocol):
    """A model that ``given`` conditions on classes: one of each example, or one of all; its other methods stay.

    ``guidance`` is the weight of classifier-free guidance: above 0 the class counts for more than in p(x | class).
    """

    def given(self, labels: Tensor | int, guidance: float = 0.0) -> Self: ...


@runtime_checkable
class HasUpdates(Protocol):
    """Of each layer that was adapted the weight that it had and what was added to it, both as matrices."""

    def updates(self) -> dict[str, tuple[Tensor, Tensor]]: ...


@runtime_checkable
class HasFilters(Protocol):
    """The filters through which a model first looks at images, (count, channels, height, width)."""

    def filters(self) -> Tensor: ...


@runtime_checkable
class HasNeighbors(Protocol):
    """Words as vectors: those nearest to one, with the cosines, and all vectors at length one, (vocab, latent)."""

    def nearest(self, word: str | int, n: int = 10) -> list[tuple[str, float]]: ...

    def directions(self) -> Tensor: ...


@runtime_checkable
class Attends(Protocol):
    """How much each token of a text looks at each, (layers, B, heads, T, T)."""

    def attention_maps(self, x: Tensor) -> Tensor: ...
