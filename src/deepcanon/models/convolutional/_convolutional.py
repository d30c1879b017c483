"""Image classifiers and regressors: the size of the images, label smoothing, and the filters of the first layer."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from deepcanon.core import DataError, Labeled, Terms, UsageError
from deepcanon.core.checks import at_least, one_of
from deepcanon.models._predictor import Predictor

Stem = Literal["auto", "large", "small"]

SMALL = 64
"""The largest side, in pixels, of an image that counts as small."""

CLIP = "norm:1.0"
"""Gradient clipping in the recipe of real targets: unlike those of classes their gradients have no bound, and a head
that grows confident makes them larger still, too large for learning rates that suit classes."""


def is_small(stem: Stem, height: int, width: int) -> bool:
    """Whether images of this size get the stem for small ones, which keeps their size."""
    one_of(get_args(Stem), stem=stem)
    return min(height, width) <= SMALL if stem == "auto" else stem == "small"


class ImagePredictor(Predictor):
    r"""A network that predicts the class or the real targets of an image; classes are trained with label smoothing.

    .. math:: q_k = (1 - \epsilon)\, [k = y] + \frac{\epsilon}{K}, \qquad
        -\sum_k q_k \log p_k = -\log p_y + \epsilon \Bigl(\log p_y - \frac1K \sum_k \log p_k\Bigr) \qquad (1)

    The two terms of the right-hand side are the two terms of the loss, in evaluation, too, so that the weights that are
    kept are the best by what was trained: the negative log-likelihood alone may be lowest early on, before the
    smoothing has had its effect, at a lower accuracy. Real targets have the loss of every predictor: the squared
    error, or the negative log-likelihood of a head; their recipe clips gradients. Images are in the channels-last
    memory format, in which convolutions are fastest; weights keep torch's own order.

    A leaf ends in a linear map to ``outputs`` numbers.
    """

    def __init__(
        self,
        channels: int,
        height: int,
        width: int,
        classes: int | None,
        targets: int | None,
        smoothing: float,
        head: str | None,
    ) -> None:
        super().__init__()
        at_least(1, channels=channels, height=height, width=width)
        if not 0 <= smoothing < 1:
            raise UsageError(f"smoothing is a share of the label, from 0 to below 1 (got {smoothing})")
        self.shape = (channels, height, width)
        self.outputs = self._outputs_for(classes, targets, head)
        self.smoothing = smoothing
        if classes is None:
            self.__dict__["recipe"] = replace(self.recipe, clip=CLIP)

    def _loss_of(self, outputs: Tensor, batch: Labeled) -> Terms:
        if self.classes is None:
            return super()._loss_of(outputs, batch)
        log_p = outputs.log_softmax(-1)
        terms = self.class_terms(log_p, batch.y)
        if self.smoothing == 0:
            return terms
        (nll,) = terms.values()
        plain = self.class_weight is None or not self.training
        weighted = log_p if plain else log_p * self.class_weight.to(log_p)[batch.y].unsqueeze(1)  # type: ignore[union-attr]
        return {**terms, "smoothing": self.smoothing * (-weighted.mean() - nll)}  # eq. (1)

    def filters(self) -> Tensor:
        """The filters of the first convolution, (count, channels, height, width)."""
        first = next(layer for layer in self.modules() if isinstance(layer, nn.Conv2d))
        return first.weight.detach()

    def _images(self, x: Tensor) -> Tensor:
        """The images in the channels-last memory format; flat rows of pixels become images again."""
        if x.ndim < 2 or x.shape[1:].numel() != torch.Size(self.shape).numel():
            raise DataError(
                f"the model takes images of shape {self.shape}, channels first, got the shape {tuple(x.shape)}"
            )
        # Not .contiguous(): with one channel every order counts as channels last, and it would leave the strides alone.
        return x.reshape(-1, *self.shape).to(memory_format=torch.channels_last)
