"""The diffusion model of classes, with classifier-free guidance."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Self

import torch
from torch import Generator, Tensor, nn

from deepcanon.core import DataError, Labeled, Recipe, Terms, UsageError
from deepcanon.core.checks import at_least, only_classes
from deepcanon.models.diffusion._denoiser import Denoiser
from deepcanon.models.diffusion._diffusion import Levels, NoiseSchedule
from deepcanon.nn.time_mlp import ClassTimeMLP

SHOWN = 10
"""How many classes the gallery shows."""

GALLERY_GUIDANCE = 1.0
"""The weight of guidance in the gallery."""


class GuidedDDPM(Denoiser[Labeled]):
    r"""A network learns to see the noise in noisy data of each class, and draws data of the class that is asked for.

    .. math:: L = E_{t, x_0, y, \varepsilon} \lVert \varepsilon - \hat\varepsilon(\sqrt{\bar\alpha_t} \, x_0 +
              \sqrt{1 - \bar\alpha_t} \, \varepsilon, t, y) \rVert^2, \qquad
              y = \varnothing \text{ in place of the class with probability } d \qquad (1)

    .. math:: \hat\varepsilon_w(x_t, t, y) = (1 + w) \, \hat\varepsilon(x_t, t, y)
              - w \, \hat\varepsilon(x_t, t, \varnothing) \qquad (2)

    One network learns the data with and without their classes, since in training a share d of the classes is hidden.
    Without a class the model is a DDPM of all data; ``given`` is the model that is told classes, with all that a
    diffusion model can say. With the weight w of guidance it goes back by (2), along the score of
    :math:`p(x) \, p(y \mid x)^{1 + w}`: with :math:`w = 0` that is :math:`p(x \mid y)`, with more its samples
    are surer of their class and less various.

    References:
        | Classifier-Free Diffusion Guidance (Ho and Salimans, 2022), https://arxiv.org/abs/2207.12598
        | Denoising Diffusion Probabilistic Models (Ho et al., 2020), https://arxiv.org/abs/2006.11239

    Arguments:
        features: The dimension of the data.
        classes: The number of classes.
        hidden: The widths of the residual blocks of the network.
        levels: The number :math:`T` of noise levels.
        noise: How the noise grows from level to level: ``linear`` or ``cosine``.
        average: The decay of the moving average of the weights.
        drop: The share :math:`d` of classes that is hidden in training.
    """

    recipe = Recipe(lr=2e-3, schedule="cosine", batch_size=128, epochs=400)
    labels: Tensor | None = None
    """The classes that the model is told; none of a model as it was built."""
    guidance: float = 0.0
    """The weight w of eq. (2)."""

    def __init__(
        self,
        features: int,
        classes: int,
        hidden: tuple[int, ...] = (256, 256, 256),
        levels: int = 200,
        noise: NoiseSchedule = "cosine",
        average: float = 0.999,
        drop: float = 0.2,
    ) -> None:
        super().__init__(features, levels, noise)
        at_least(1, classes=classes)
        if not 0 < drop < 1:
            raise UsageError(f"drop is a share between 0 and 1, since both sides of guidance must learn (got {drop})")
        self.classes = classes
        self.drop = drop
        self._learn_by(ClassTimeMLP(features, hidden, classes), average)

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0)) * 2 + 1
        return cls(features=2, classes=2, hidden=(8,), levels=8), Labeled(x, (x[:, 0] > 1).long())

    def given(self, labels: Tensor | int, guidance: float = 0.0) -> Self:
        """The same model, told the class of each example, (B,), or one class of all: it samples that, scores that ...

        More examples than labels go through the labels again and again; ``guidance`` is the weight w of (2).
        """
        told = torch.as_tensor(labels, device=self.variances.device)
        told = told.reshape(1) if told.ndim == 0 else told
        only_classes(told, self.classes)
        return self._with(told, guidance)

    def prepare(self, data: Iterable[Labeled]) -> None:
        """Look whether all classes are known, and take the center and the spread of the data."""
        super().prepare(self._checked(data))

    def loss(self, batch: Labeled) -> Terms:
        hidden = torch.rand(len(batch.y), device=batch.y.device) < self.drop
        labels = batch.y.masked_fill(hidden, self.classes)
        return super(GuidedDDPM, self._with(labels)).loss(batch)  # eq. (1)

    def guess(self, x: Tensor, t: Tensor, at: Levels) -> Tensor:
        given = super().guess(x, t, at)
        if self.guidance == 0 or self.labels is None:
            return given
        return given + self.guidance * (given - self._with(None).guess(x, t, at))  # eq. (2)

    def gallery(self, x: Tensor, *, generator: Generator | None = None) -> dict[str, Tensor]:
        """As many samples as there are examples in x of each class."""
        classes = torch.arange(min(self.classes, SHOWN), device=self.variances.device)
        told = self.given(classes.repeat_interleave(len(x)), GALLERY_GUIDANCE)
        drawn = told.sample(len(x) * len(classes), generator=generator).reshape(len(classes), *x.shape)
        return {f"class {c}": row for c, row in enumerate(drawn)}

    def _with(self, labels: Tensor | None, guidance: float = 0.0) -> Self:
        """A view of the model, which shares its weights."""
        view = copy.copy(self)
        view.labels, view.guidance = labels, guidance
        return view

    def _told(self, context: Tensor | None, count: int) -> Self:
        if context is None:
            return self
        if len(context) != count:
            raise DataError(f"context says the class of each example: got {len(context)} for {count} examples")
        return self.given(context)

    def _checked(self, data: Iterable[Labeled]) -> Iterator[Labeled]:
        for batch in data:
            only_classes(batch.y, self.classes)
            yield batch

    def _seen(self, net: nn.Module, x: Tensor, time: Tensor) -> Tensor:
        if self.labels is None:
            labels = torch.full((1,), self.classes, device=x.device)
        else:
            rounds, left = divmod(len(x), max(1, len(self.labels)))
            if left:
                raise DataError(f"{len(x)} examples cannot share {len(self.labels)} classes; give one for each")
            labels = self.labels.repeat(rounds)
        seen: Tensor = net(x, time, labels)
        return seen
