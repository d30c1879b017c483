"""Output layers: from hidden vectors to a distribution over many classes, whatever it costs to train them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from deepcanon.core.checks import at_least
from deepcanon.core.precision import full


class OutputLayer(nn.Module, ABC):
    r"""The last layer of a model of many classes: a distribution :math:`p(y \mid h)` given a hidden vector h.

    What all have is exact: ``log_probs``, which sum up to one, and ``nats``, the negative log-likelihood of a class.
    ``loss`` is what is minimized in training: the nats, or an estimate of them by a few classes that are drawn.
    ``follow`` fits the layer to how often each class occurs, before the training.

    Arguments:
        width: The width of the hidden vectors.
        classes: The number of classes.
    """

    samples: int | None = None
    """How many noise classes are drawn for a loss; None if none are drawn: all classes count."""
    tends_to_nats: ClassVar[bool] = True
    """Whether the gradient of the loss tends to that of the nats with more samples and negatives."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        at_least(1, width=width)
        at_least(2, classes=classes)
        self.width, self.classes = width, classes

    @abstractmethod
    def log_probs(self, h: Tensor) -> Tensor:
        """The log-probabilities of all classes, (..., classes), given hidden vectors, (..., width)."""

    def nats(self, h: Tensor, y: Tensor) -> Tensor:
        """The exact negative log-likelihood of each class, (...,), given its hidden vector."""
        return -self.log_probs(h).gather(-1, y.unsqueeze(-1)).squeeze(-1)

    def loss(self, h: Tensor, y: Tensor) -> Tensor:
        """What is minimized in training, for each example, (...,)."""
        return self.nats(h, y)

    def forward(self, h: Tensor) -> Tensor:
        """The log-probabilities of all classes."""
        return self.log_probs(h)

    def follow(self, counts: Tensor) -> None:
        """Fit the layer to the counts of the classes, (classes,), in the training data."""
        return

    def report(self) -> dict[str, Tensor]:
        """What is worth knowing of the training so far, as named numbers."""
        return {}


class FullSoftmax(OutputLayer):
    r"""The softmax over all classes, whose cost is linear in their number.

    .. math:: \log p(y \mid h) = s_y - \log \sum_c e^{s_c}, \qquad s_c = \langle w_c, h \rangle + b_c \qquad (1)
    """

    def __init__(self, width: int, classes: int) -> None:
        super().__init__(width, classes)
        self.scores = nn.Linear(width, classes)

    def log_probs(self, h: Tensor) -> Tensor:
        return full(self.scores(h)).log_softmax(-1)  # eq. (1)

    def nats(self, h: Tensor, y: Tensor) -> Tensor:
        scores = full(self.scores(h)).flatten(0, -2)
        return cross_entropy(scores, y.flatten(), reduction="none").view(y.shape)


def noise_log_probs(counts: Tensor, exponent: float) -> Tensor:
    r"""The log-probabilities of noise classes, :math:`q(c) \propto \text{count}(c)^a`, in double precision.

    A class that never occurs is taken as one that occurs once, so that all are drawn.

    >>> noise_log_probs(torch.tensor([8, 1, 0]), exponent=1.0).exp()
    tensor([0.8000, 0.1000, 0.1000], dtype=torch.float64)
    """
    return (exponent * counts.double().clamp_min(1).log()).log_softmax(0)


def draw_noise(steps: Tensor, *shape: int) -> Tensor:
    """Classes drawn at random in this shape; ``steps`` are the probabilities summed up from the first class to each."""
    uniform = torch.rand(*shape, device=steps.device, dtype=steps.dtype)
    return torch.searchsorted(steps, uniform).clamp_max_(len(steps) - 1)
