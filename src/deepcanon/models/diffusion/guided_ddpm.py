"""Class-conditional diffusion model with classifier-free guidance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Self

import torch
from torch import Generator, Tensor, nn

from deepcanon.core import ClassConditional, Context, Labeled, Recipe, Terms, UsageError, given_batch
from deepcanon.core.checks import at_least, only_classes
from deepcanon.models._denoising import Network, denoising_network
from deepcanon.models.diffusion._denoiser import Denoiser, Predicted, Variances
from deepcanon.models.diffusion._diffusion import ScheduleName
from deepcanon.models.diffusion._solvers import Level, Prediction

SHOWN = 10
"""How many classes the gallery shows."""

GALLERY_GUIDANCE = 1.0
"""The guidance weight in the gallery."""


class GuidedDDPM(ClassConditional, Denoiser[Labeled]):
    r"""A diffusion model conditioned on classes, which samples a given class with classifier-free guidance.

    Also known as: conditional diffusion model, class-conditional DDPM, classifier-free guidance (CFG).

    .. math:: L = E_{t, x_0, y, \varepsilon} \lVert \varepsilon - \hat\varepsilon(\sqrt{\bar\alpha_t} \, x_0 +
              \sqrt{1 - \bar\alpha_t} \, \varepsilon, t, y) \rVert^2, \qquad
              y = \varnothing \text{ in place of the class with probability } d \qquad (1)

    .. math:: \hat\varepsilon_w(x_t, t, y) = (1 + w) \, \hat\varepsilon(x_t, t, y)
              - w \, \hat\varepsilon(x_t, t, \varnothing) \qquad (2)

    One network is trained as the conditional and as the unconditional model, since a share d of the classes is dropped
    in training. Without a class the model is a DDPM of all data; ``given`` is the model conditioned on classes, with
    all methods of a diffusion model. With the guidance weight w its reverse process uses (2), along the score of
    :math:`p(x) \, p(y \mid x)^{1 + w}`: with :math:`w = 0` that is :math:`p(x \mid y)`; with more, a classifier is
    surer of the samples, and they are less diverse.

    References:
        | Classifier-Free Diffusion Guidance (Ho and Salimans, 2022), https://arxiv.org/abs/2207.12598
        | Denoising Diffusion Probabilistic Models (Ho et al., 2020), https://arxiv.org/abs/2006.11239

    Arguments:
        features: The dimension of the data.
        classes: The number of classes.
        channels: The channels of an image, where the data are images.
        height: The height of an image in pixels.
        width: The width of an image in pixels.
        levels: The gray levels of the images before they were dequantized; if known, metrics have bits per dimension.
        network: The network: ``mlp``, residual and dense, or ``unet``, convolutional with attention, for images.
        hidden: The widths of the residual blocks, or the channels at each resolution of the U-Net.
        timesteps: The number :math:`T` of timesteps.
        noise: The noise schedule, by which the noise grows from timestep to timestep: ``linear`` or ``cosine``.
        average: The decay of the exponential moving average of the weights.
        prediction: What the network predicts: ``v``, ``noise`` or ``data``.
        variances: Those of the reverse process: ``fixed``, or ``learned`` for each value at each timestep.
        class_dropout: The probability :math:`d` with which a class is dropped in training.
    """

    recipe = Recipe(lr=2e-3, schedule="cosine", batch_size=128, epochs=400)
    context_optional = True
    given_options = ("guidance",)
    guidance: float = 0.0
    """The guidance weight w of eq. (2)."""

    def __init__(
        self,
        features: int,
        classes: int,
        channels: int | None = None,
        height: int | None = None,
        width: int | None = None,
        levels: int | None = None,
        network: Network = "mlp",
        hidden: tuple[int, ...] | None = None,
        timesteps: int = 200,
        noise: ScheduleName = "cosine",
        average: float = 0.999,
        prediction: Predicted = "v",
        variances: Variances = "fixed",
        class_dropout: float = 0.2,
    ) -> None:
        super().__init__(features, timesteps, noise, prediction, variances, levels)
        at_least(1, classes=classes)
        if not 0 < class_dropout < 1:
            raise UsageError(
                f"class_dropout is a share between 0 and 1: both sides of guidance must learn (got {class_dropout})"
            )
        self.classes = classes
        self.class_dropout = class_dropout
        image = (channels, height, width)
        self._set_network(denoising_network(network, features, image, hidden, classes, self._outputs), average)

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0)) * 2 + 1
        return cls(features=2, classes=2, hidden=(8,), timesteps=8), Labeled(x, (x[:, 0] > 1).long())

    def given(self, context: Context | int, guidance: float = 0.0) -> Self:
        """The same model conditioned on the class of each example, or on one class of all.

        ``guidance`` is the weight w of (2).
        """
        view = super().given(context)
        view.guidance = guidance
        return view

    def prepare(self, data: Iterable[Labeled]) -> None:
        """Check that all classes are among ``classes``, and take the mean and the standard deviation of the data."""
        super().prepare(self._checked(data))

    def loss(self, batch: Labeled) -> Terms:
        dropped = torch.rand(len(batch.y), device=batch.y.device) < self.class_dropout
        labels = given_batch(self, batch)._context(len(batch)).masked_fill(dropped, self.classes)
        return self._view(labels)._hybrid_loss(batch.x)  # eq. (1)

    def gallery(self, x: Tensor, *, generator: Generator | None = None) -> dict[str, Tensor]:
        """Samples of each class, as many as there are examples in x."""
        classes = torch.arange(min(self.classes, SHOWN), device=self.betas.device)
        conditioned = self.given(classes.repeat_interleave(len(x)), GALLERY_GUIDANCE)
        drawn = conditioned.sample(len(x) * len(classes), generator=generator).reshape(len(classes), *x.shape)
        return {f"class {c}": row for c, row in enumerate(drawn)}

    def _checked(self, data: Iterable[Labeled]) -> Iterator[Labeled]:
        for batch in data:
            only_classes(batch.y, self.classes)
            yield batch

    def _predict(self, x: Tensor, t: Tensor, level: Level) -> Prediction:
        conditional = super()._predict(x, t, level)
        if self.guidance == 0 or self.context is None:
            return conditional
        towards = conditional.velocity - self._view(None)._predict(x, t, level).velocity
        return conditional._replace(velocity=conditional.velocity + self.guidance * towards)  # eq. (2)

    def _output(self, net: nn.Module, x: Tensor, time: Tensor) -> Tensor:
        none = torch.full((1,), self.classes, device=x.device)
        output: Tensor = net(x, time, none if self.context is None else self._context(len(x)))
        return output
