"""Batch normalization that also accepts a batch of one."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class BatchNorm(nn.BatchNorm2d):
    r"""Batch normalization of images, :math:`y = \gamma (x - \mu) / \sqrt{\sigma^2 + \epsilon} + \beta`.

    In training :math:`\mu` and :math:`\sigma^2` are those of the batch, which a single value per channel does not have
    (the last batch of an epoch may be one example, and its last feature map one pixel). There torch refuses; here the
    running statistics are used, as in evaluation, and are not updated.

    References:
        | Batch normalization: accelerating deep network training by reducing internal covariate shift (Ioffe and
          Szegedy, 2015), https://arxiv.org/abs/1502.03167

    >>> import torch
    >>> BatchNorm(2)(torch.ones(1, 2, 1, 1)).shape
    torch.Size([1, 2, 1, 1])
    """

    def forward(self, x: Tensor) -> Tensor:
        if self.training and x.numel() == x.shape[1]:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        normalized: Tensor = super().forward(x)
        return normalized
