"""Denoising diffusion models: those with a network that is trained to predict the noise in noisy data."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from deepcanon.core import Terms
from deepcanon.core.checks import one_of
from deepcanon.core.precision import full
from deepcanon.distributions.bits_per_dim import bits_per_dim
from deepcanon.models.diffusion._diffusion import B, Diffusion, ScheduleName
from deepcanon.models.diffusion._solvers import Level, Prediction

Predicted = Literal["v", "noise", "data"]
Variances = Literal["fixed", "learned"]

HYBRID = 0.001
"""The weight of the bound in the hybrid loss by which variances are learned."""


class Denoiser(Diffusion[B]):
    r"""A denoising diffusion model: a network predicts the noise that was added, at a random timestep per example.

    .. math:: L = E_{t, x_0, \varepsilon} \lVert \varepsilon - \hat\varepsilon(\sqrt{\bar\alpha_t} \, x_0 +
              \sqrt{1 - \bar\alpha_t} \, \varepsilon, t) \rVert^2, \qquad t \sim U\{1 \dots T\}, \;
              \varepsilon \sim N(0, I) \qquad (1)

    .. math:: \hat\varepsilon(x_t, t) = \sqrt{1 - \bar\alpha_t} \, x_t + c_t f(x_t, t), \qquad c_t =
              \sqrt{\bar\alpha_t} \text{ (v)}, \; 1 \text{ (noise)}, \; -\sqrt{\bar\alpha_t / (1 - \bar\alpha_t)}
              \text{ (data)} \qquad (2)

    The network f is trained on (1). It predicts the velocity v, the noise, or the data, each less the best linear
    prediction for data of unit variance, which is left where f is 0. ``sample``, ``log_prob`` and ``score`` use an
    exponential moving average (EMA) of its weights. Learned variances come from further outputs of the network; they
    are trained on the divergences of the bound, with a small weight, and the mean on (1) alone.
    """

    def __init__(
        self,
        features: int,
        timesteps: int,
        noise: ScheduleName,
        prediction: Predicted = "v",
        variances: Variances = "fixed",
        levels: int | None = None,
    ) -> None:
        super().__init__(features, timesteps, noise)
        one_of(get_args(Predicted), prediction=prediction)
        one_of(get_args(Variances), variances=variances)
        self.prediction, self.variances, self.levels = prediction, variances, levels

    def _metrics_of(self, terms: Terms, batch: B) -> Terms:
        return bits_per_dim(super()._metrics_of(terms, batch), self.features, self.levels)

    @property
    def _outputs(self) -> int:
        """How many numbers the network gives for each feature."""
        return 2 if self.variances == "learned" else 1

    def score(self, x: Tensor, t: int = 1) -> Tensor:
        """The gradient of the log-density of data with the noise of timestep t, in the shape and units of ``x``."""
        time = torch.tensor([t], device=x.device)
        level = self.noise_schedule().at(time).level
        y = level.signal * self._standard(x)
        predicted = self._predict(y, time, level).noise(y, level)
        return (-self.to_standard.scale * level.signal / level.noise * predicted).reshape(x.shape)

    def _predict(self, x: Tensor, t: Tensor, level: Level) -> Prediction:
        return self._predicted_by(self.averaged, x, t, level)

    def _hybrid_loss(self, x: Tensor) -> Terms:
        """The squared error of the predicted noise at random timesteps, and the loss of learned variances: means."""
        x = self._standard(x)
        t = torch.randint(1, self.timesteps + 1, (len(x),), device=x.device)
        schedule = self.noise_schedule()
        at = schedule.at(t)
        noise = torch.randn_like(x)
        noisy = at.level.signal * x + at.level.noise * noise
        predicted = self._predicted_by(self.net, noisy, t, at.level)
        error = (noise - predicted.noise(noisy, at.level)).square()
        simple = {"simple": error.sum(-1).mean()}  # eq. (1)
        if predicted.share is None:
            return simple
        weighted = at.beta / (2 * at.alpha * at.beta_bar) * error.detach()
        excess = self._with_variance(weighted, predicted, t, schedule).mean()
        return {**simple, "variances": HYBRID * self.timesteps * excess}

    def _predicted_by(self, net: nn.Module, x: Tensor, t: Tensor, level: Level) -> Prediction:
        time = t * (1000 / self.timesteps)  # on one scale, however many timesteps there are
        output = full(self._output(net, x, time))
        share = None
        if self.variances == "learned":
            output, logit = output.chunk(2, -1)
            share = logit.sigmoid()
        if self.prediction == "noise":
            output = output / level.signal  # eq. (2)
        elif self.prediction == "data":
            least = self.betas[1].sqrt()  # below timestep 1 the network knows no noise
            output = -output / level.noise.clamp_min(least)
        return Prediction(output, share)

    def _output(self, net: nn.Module, x: Tensor, time: Tensor) -> Tensor:
        """The network's output, the f of eq. (2), and next to it the logits of learned variances."""
        output: Tensor = net(x, time)
        return output
