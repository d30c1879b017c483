"""Conditional Glow (c-Glow)."""

from __future__ import annotations

from typing import Self, cast

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from deepcanon.core import ClassConditional, Context, DataError, Labeled, Recipe, UsageError, bound
from deepcanon.core.checks import at_least
from deepcanon.models.flows._flow import TransformFlow
from deepcanon.models.flows._multi_scale import Halves, multi_scale
from deepcanon.nn.transforms import Chain


class ConditionalGlow(ClassConditional, TransformFlow[Labeled]):
    r"""Two Glows: one of the upper half of an image given its class, one of the lower half given both.

    Also known as: conditional generative flow.

    .. math:: p(x \mid y) = p(x_u \mid y)\, p(x_l \mid x_u, y) \qquad (1)

    .. math:: \log p(x_l \mid x_u, y) = \log N(z_l; 0, I) + \log \left| \det \frac{\partial z_l}{\partial x_l} \right|,
        \qquad z_l = f(x_l; x_u, y) \qquad (2)

    Both factors are exact densities. The networks of the couplings read, besides half of the channels, what they are
    conditioned on: the class, and the upper half of the image, squeezed as the lower one is at their scale, and
    mirrored, so that its last row lies next to the first one of the lower half. Nothing else is conditional. The lower
    half is drawn by ``inpaint``, and ``inpaint_log_prob`` is (2); the gallery of a run shows some::

        deepcanon train conditional_glow --data digits:dequantized

    References:
        | Structured Output Learning with Conditional Generative Flows (Lu and Huang, 2020),
          https://arxiv.org/abs/1905.13288
        | Glow: Generative Flow with Invertible 1x1 Convolutions (Kingma and Dhariwal, 2018),
          https://arxiv.org/abs/1807.03039

    Arguments:
        channels: The channels of an image: 1 if it is gray, 3 if it has colors.
        height: The height of an image in pixels, of which each half has half.
        width: The width of an image in pixels.
        classes: The number of classes.
        levels: The gray levels of the images before they were dequantized; if known, metrics have bits per dimension.
        scales: The number of scales; the height of a half and the width must be divisible by 2 so many times.
        depth: The number of steps at each scale.
        hidden: The channels of the two hidden layers in the networks.
    """

    recipe = Recipe(lr=2e-3, schedule="cosine:warmup=50", batch_size=64, epochs=20, clip="norm:50")

    def __init__(
        self,
        channels: int,
        height: int,
        width: int,
        classes: int,
        levels: int | None = None,
        scales: int = 2,
        depth: int = 4,
        hidden: int = 64,
    ) -> None:
        super().__init__(channels * height * width, levels)
        at_least(1, classes=classes)
        if height % 2:
            raise UsageError(f"an image of two halves has an even height (got {height})")
        self.shape, self.classes = (channels, height, width), classes
        half = (channels, height // 2, width)
        upper = multi_scale(half, scales, depth, hidden, context=classes)
        lower = multi_scale(half, scales, depth, hidden, context=classes + channels)
        self.flow = Chain([Halves(upper, lower, half[1:])])  # eqs. (1) and (2)

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        x = torch.rand(16, 1, 4, 2, generator=torch.Generator().manual_seed(0)).cumsum(-2)
        model = cls(channels=1, height=4, width=2, classes=2, levels=4, scales=1, depth=2, hidden=4)
        return model, Labeled(x, torch.arange(16) % 2)

    @property
    def halves(self) -> Halves:
        """The only transform of the flow."""
        return cast(Halves, self.flow.transforms[0])

    @torch.no_grad()
    def inpaint(self, x: Tensor, *, context: Context | None = None, generator: Generator | None = None) -> Tensor:
        """The images with their lower halves drawn anew, given the upper ones and the class."""
        model = bound(self, context, len(x))
        upper = model._inputs(x).chunk(2, -2)[0]
        z = self._noise(len(x), generator)[:, self.features // 2 :]
        return torch.cat([upper, self.halves.lower.inverse(z, self.halves.seen(upper, model._told(len(x))))], -2)

    def inpaint_log_prob(self, x: Tensor, *, context: Context | None = None) -> Tensor:
        """The log-density of the lower half of each image given the upper one and the class, (B,)."""
        model = bound(self, context, len(x))
        model.check_values(x)
        upper, lower = model._inputs(x).chunk(2, -2)
        z, log_det = self.halves.lower(lower, self.halves.seen(upper, model._told(len(x))))
        return self._change_of_variables(z, log_det)  # eq. (2)

    @torch.no_grad()
    def classified(self, x: Tensor) -> Tensor:
        """The class that makes the upper half of each image most probable, where all are equally frequent, (B,)."""
        upper = self._inputs(x).chunk(2, -2)[0]
        told = (self.given(label)._told(len(x)) for label in range(self.classes))
        found = [self._change_of_variables(*self.halves.upper(upper, self.halves.maps(each))) for each in told]
        return torch.stack(found).argmax(0)

    def gallery(self, x: Tensor, *, generator: Generator | None = None) -> dict[str, Tensor]:
        """Images, their upper halves, and these inpainted, given the class that the upper half speaks for."""
        known = x.clone()
        known[..., self.shape[1] // 2 :, :] = float(x.min())
        model = self.given(self.classified(x))
        drawn = {f"inpainted {number}": model.inpaint(x, generator=generator) for number in (1, 2, 3)}
        return {"image": x, "upper half": known, **drawn}

    def _told(self, n: int) -> Tensor:
        labels = self._context(n)
        assert isinstance(labels, Tensor)
        return F.one_hot(labels, self.classes).to(next(self.parameters()).dtype)

    def _inputs(self, x: Tensor) -> Tensor:
        if x.shape[1:] != self.shape:
            raise DataError(f"the model takes images of the shape {self.shape}, got {tuple(x.shape[1:])}")
        return x
