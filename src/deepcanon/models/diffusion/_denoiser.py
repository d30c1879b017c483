"""What all diffusion models share whose network learns to see the noise in noisy data."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from deepcanon.core import Descend, Terms, Turn, UsageError
from deepcanon.core.precision import full
from deepcanon.models.diffusion._diffusion import B, Diffusion, Levels
from deepcanon.nn.averaged import Averaged


class Denoiser(Diffusion[B]):
    r"""A network learns to see the noise that was added, at a level drawn anew for each example.

    .. math:: L = E_{t, x_0, \varepsilon} \lVert \varepsilon - \hat\varepsilon(\sqrt{\bar\alpha_t} \, x_0 +
              \sqrt{1 - \bar\alpha_t} \, \varepsilon, t) \rVert^2, \qquad t \sim U\{1 \dots T\}, \;
              \varepsilon \sim N(0, I) \qquad (1)

    .. math:: \hat\varepsilon(x_t, t) = \sqrt{1 - \bar\alpha_t} \, x_t + \sqrt{\bar\alpha_t} \, v(x_t, t) \qquad (2)

    The network is v; where it gives 0, (2) is the best linear guess for data of unit variance. Whatever the model says,
    it says with a moving average of its weights.
    """

    net: nn.Module
    averaged: Averaged

    def _learn_by(self, net: nn.Module, average: float) -> None:
        """Take the network v, and begin the moving average of its weights with this decay."""
        if not 0 <= average < 1:
            raise UsageError(f"average is a decay from 0 to below 1 (got {average})")
        self.net = net
        self.averaged = Averaged(net, average)

    def turns(self) -> Sequence[Turn[B]]:
        return [Descend(self.loss, self.net.parameters(), after=self._average)]

    def loss(self, batch: B) -> Terms:
        x = self._standard(batch.x)
        t = torch.randint(1, self.levels + 1, (len(x),), device=x.device)
        at = self.table().at(t)
        noise = torch.randn_like(x)
        guess = self._guess(self.net, at.alpha_bar.sqrt() * x + at.beta_bar.sqrt() * noise, t, at)
        return {"simple": (noise - guess).square().sum(-1).mean()}  # eq. (1)

    def guess(self, x: Tensor, t: Tensor, at: Levels) -> Tensor:
        return self._guess(self.averaged, x, t, at)

    def score(self, x: Tensor, t: int = 1) -> Tensor:
        """The gradient of the log-density of data with the noise of level t, in the shape and units of ``x``."""
        level = torch.tensor([t], device=x.device)
        at = self.table().at(level)
        guess = self.guess(at.alpha_bar.sqrt() * self._standard(x), level, at)
        return (-self.to_standard.scale * (at.alpha_bar / at.beta_bar).sqrt() * guess).reshape(x.shape)

    def _guess(self, net: nn.Module, x: Tensor, t: Tensor, at: Levels) -> Tensor:
        time = t * (1000 / self.levels)  # levels on one scale, however many there are
        return at.beta_bar.sqrt() * x + at.alpha_bar.sqrt() * full(self._seen(net, x, time))  # eq. (2)

    def _seen(self, net: nn.Module, x: Tensor, time: Tensor) -> Tensor:
        """What the network sees in x, the v of eq. (2)."""
        seen: Tensor = net(x, time)
        return seen

    def _average(self) -> None:
        self.averaged.update(self.net)
