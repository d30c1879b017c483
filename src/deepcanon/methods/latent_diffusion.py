"""Latent diffusion."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import torch
from torch import Generator, Tensor, nn

from deepcanon.core import (
    Batch,
    ClassConditional,
    Context,
    Descend,
    Evaluated,
    Model,
    Terms,
    Turn,
    UsageError,
    bound,
    given_batch,
    is_conditional,
    methods_of,
)
from deepcanon.core.modes import eval_mode
from deepcanon.core.toy_autoencoder import ToyAutoencoder
from deepcanon.methods._method import Method, descents
from deepcanon.nn.averaged import Averaged
from deepcanon.nn.probability_flow import to_data
from deepcanon.nn.time_mlp import ClassTimeMLP, TimeMLP

TIMES = 1000
"""The largest time of the network, at which there is noise only."""
DRAWS = 8
"""The angles of each code in a step, whose encoding they share."""


class LatentDiffusion(Method[Batch]):
    r"""A diffusion model in the code of an autoencoder, whose decoder makes examples of the codes that it draws.

    Also known as: latent diffusion model (LDM).

    The autoencoder is trained first, in a share of the training, and then stays as it is. Its standardized codes
    :math:`c` are mixed with noise at random angles, and a network learns the velocity along them,

    .. math:: y = \cos\varphi\, c + \sin\varphi\, \varepsilon, \qquad \varphi \sim U(0, \pi / 2), \qquad (1)

    .. math:: E\, \lVert \hat v(y, \varphi) - (\cos\varphi\, \varepsilon - \sin\varphi\, c) \rVert^2, \qquad (2)

    by which the probability flow carries noise to codes, which are decoded:

    .. math:: \frac{dy}{d\varphi} = \hat v(y, \varphi), \qquad y(\pi / 2) \sim N(0, I), \qquad x = d(y(0)). \qquad (3)

    Around an autoencoder that is conditioned on classes the network is conditioned on them, too, and codes of a given
    class are drawn.

    References:
        | High-Resolution Image Synthesis with Latent Diffusion Models (Rombach et al., 2022),
          https://arxiv.org/abs/2112.10752
        | Progressive Distillation for Fast Sampling of Diffusion Models (Salimans and Ho, 2022; velocities),
          https://arxiv.org/abs/2202.00512

    Arguments:
        model: The autoencoder, plain or variational; on the command line, its name or the folder of its run.
        share: The share of the training, at its end, in which the diffusion learns: 1 for an autoencoder that is
            trained already, 0 for none.
        hidden: The widths of the residual blocks of the network.
        average: The decay of the moving average of the network's weights, by which samples are drawn.
    """

    default_model: ClassVar[str] = "autoencoder"
    null: ClassVar[Mapping[str, Any]] = {"share": 0.0}

    def __init__(
        self,
        model: Model[Any],
        share: float = 0.6,
        hidden: tuple[int, ...] = (128, 128, 128),
        average: float = 0.995,
    ) -> None:
        super().__init__(model)
        if not 0 <= share <= 1:
            raise UsageError(f"share is a share of the training, from 0 to 1 (got {share:g})")
        if not 0 <= average < 1:
            raise UsageError(f"average is a decay from 0 to below 1 (got {average:g})")
        latent = getattr(model, "latent", None)
        if not {"encode", "decode"} <= set(methods_of(model)) or not isinstance(latent, int):
            raise UsageError(f"latent_diffusion wraps an autoencoder with one code; {model.name()} is not one")
        if is_conditional(model) and not isinstance(model, ClassConditional):
            raise UsageError(
                f"latent_diffusion draws codes of classes, or of none; {model.name()} needs another context"
            )
        self.share, self.latent = share, latent
        if share > 0:
            like = next(model.parameters())
            self.standard = nn.BatchNorm1d(latent, affine=False, momentum=None).to(like)  # averages over all batches
            classes = model.classes if isinstance(model, ClassConditional) else None
            self.net = (TimeMLP(latent, hidden) if classes is None else ClassTimeMLP(latent, hidden, classes)).to(like)
            self.averaged = Averaged(self.net, average)
            self._replace_methods()

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        model, batch = ToyAutoencoder.example()
        return cls(model, hidden=(16,)), batch

    def given(self, context: Context | int, **options: Any) -> Self:
        view = super().given(context, **options)
        view._replace_methods()
        return view

    def turns(self) -> Sequence[Turn[Batch]]:
        """The autoencoder's turns, then one of the diffusion in its code."""
        first = descents(self.model, self.name())
        if self.share == 0:
            return first
        begin = 1 - self.share
        learns = Descend(
            self.denoising, self.net.parameters(), name="diffusion", share=(begin, 1.0), after=self._follow
        )
        return [*(replace(turn, share=(0.0, begin)) for turn in first if begin > 0), learns]

    def around(self, loss: Callable[[Batch], Terms], batch: Batch) -> Terms:
        return loss(batch) if self.share == 0 else {**loss(batch), **self.denoising(batch)}

    def evaluated(self, batch: Batch) -> Evaluated:
        return Evaluated(self.loss(batch), self.metrics(batch))

    def denoising(self, batch: Batch) -> Terms:
        """The loss of the network on the codes of a batch at random angles."""
        view = given_batch(self, batch)
        codes = self.standard(view.code(batch.x)).repeat(DRAWS, 1)
        angle = 0.5 * math.pi * torch.rand(len(codes), device=codes.device, dtype=codes.dtype)
        noise = torch.randn_like(codes)
        cosine, sine = angle.cos().unsqueeze(1), angle.sin().unsqueeze(1)
        noisy = cosine * codes + sine * noise  # eq. (1)
        net = self.net if self.training else self.averaged
        gap = view.velocity(net, angle, noisy) - (cosine * noise - sine * codes)
        return {"denoising": gap.square().sum(1).mean()}  # eq. (2)

    def code(self, x: Tensor) -> Tensor:
        """The code of each example, (B, latent); of a variational autoencoder, the mean of the posterior."""
        learning = torch.is_grad_enabled()
        with eval_mode(self.model), torch.set_grad_enabled(learning):
            found = self.model.encode(x)  # type: ignore[operator]
        code: Tensor = found if isinstance(found, Tensor) else found.mean
        if code.shape != (len(x), self.latent):
            raise UsageError(
                f"latent_diffusion needs a code of {self.latent} values; that of {self.model.name()} has the shape "
                f"{tuple(code.shape[1:])}"
            )
        return code

    def velocity(self, net: nn.Module, angle: Tensor, y: Tensor) -> Tensor:
        """The velocity that a network gives for points at these angles, (B,) or one for all."""
        times = (angle * (2 * TIMES / math.pi)).expand(len(y))
        velocity: Tensor = net(y, times, *self._labels(len(y)))
        return velocity

    def _labels(self, n: int) -> tuple[Tensor, ...]:
        """What the network is conditioned on for n codes: the class of each, or nothing."""
        return (self.model._context(n),) if isinstance(self.model, ClassConditional) else ()  # type: ignore[return-value]

    def _replace_methods(self) -> None:
        if self.share > 0:
            self.__dict__["sample"] = self._sample
            self.__dict__.pop("log_prob", None)  # which is not that of these samples

    @torch.no_grad()
    def _sample(self, n: int, *, context: Context | int | None = None, generator: Generator | None = None) -> Tensor:
        if context is not None:
            return bound(self, context, n)._sample(n, generator=generator)  # type: ignore[no-any-return]
        like = next(self.net.parameters())
        noise = torch.randn(n, self.latent, generator=generator, device=like.device, dtype=like.dtype)
        net = self.averaged
        codes = to_data(lambda angle, y: self.velocity(net, angle, y), noise, 0.5 * math.pi)  # eq. (3)
        mean, variance = self.standard.running_mean, self.standard.running_var
        assert mean is not None
        assert variance is not None
        found = self.model.decode(codes * (variance + self.standard.eps).sqrt() + mean)  # type: ignore[operator]
        return found if isinstance(found, Tensor) else found.mean

    def _follow(self) -> None:
        self.averaged.update(self.net)
