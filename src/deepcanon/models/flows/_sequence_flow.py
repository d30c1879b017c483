"""Flows of sequences: each frame goes through one flow, and the latents of all frames through a process in time."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator

import torch
from torch import Generator, Tensor

from deepcanon.core import Context, DataError, Terms, Videos
from deepcanon.core.checks import at_least
from deepcanon.core.conditional import bound
from deepcanon.core.memory import need
from deepcanon.core.padding import check_lengths, full_lengths, shows_values, valid_positions, without_padding
from deepcanon.core.precision import full
from deepcanon.models.flows._flow import TransformFlow

State = tuple[Tensor, ...]
"""What is known of the latents to come, as tensors (B, D), or (1, D) where it is the same for all videos."""

COPIES = 4
"""How many tensors of the size of what is drawn there are at the same time."""


class SequenceFlow(TransformFlow[Videos]):
    r"""A flow of whole videos: one flow of the frames, :math:`x_t = f(u_t)`, and a Gaussian process of their latents.

    Each latent is a Gaussian given those before it, and so a video an invertible function of noise, with an exact
    likelihood, step by step.

    .. math:: u_t = \mu_t(u_{<t}) + s_t(u_{<t}) \odot \varepsilon_t, \qquad
              \log p(x_t \mid x_{<t}) = \log N(\varepsilon_t; 0, I) - \sum \log s_t
              + \log \left| \det \frac{du_t}{dx_t} \right| \qquad (1)

    A leaf builds ``flow``, which maps frames to vectors, and says by ``_start``, ``_predicted`` and ``_updated`` what a
    state, which is carried along, knows of the next latent. The latent of a video, as of any flow, is its noise, that
    of all frames side by side. Videos have any length; a sample has ``length`` frames. Frames that are padding are
    never read.
    """

    causal = True

    def __init__(self, channels: int, height: int, width: int, length: int) -> None:
        at_least(1, channels=channels, height=height, width=width, length=length)
        super().__init__(length * channels * height * width)
        self.shape = (channels, height, width)
        self.dimensions = channels * height * width
        """The number of values of a frame."""

    @abstractmethod
    def _start(self) -> State:
        """The state before the first frame."""

    @abstractmethod
    def _predicted(self, state: State) -> tuple[Tensor, Tensor]:
        """The mean and the standard deviation of the next latent, (B, D) or (1, D)."""

    @abstractmethod
    def _updated(self, state: State, latent: Tensor) -> State:
        """The state after the next latent, (B, D), has been seen."""

    def sequences_of(self, batch: Videos) -> tuple[Tensor, Tensor]:
        """The videos, and their lengths, (B,)."""
        return batch.x, batch.lengths

    def checked(self, data: Iterable[Videos]) -> Iterator[Videos]:
        for batch in data:
            self._check(batch.x, batch.lengths)
            self.check_values(batch.frames)
            yield batch

    def has_likelihood_of(self, x: Tensor) -> bool:
        return super().has_likelihood_of(x.flatten(0, 1) if x.ndim == 5 else x)

    def loss(self, batch: Videos) -> Terms:
        return {"nll": -self.log_prob(batch.x, lengths=batch.lengths).sum() / max(1, batch.weight)}

    def log_prob(
        self,
        x: Tensor,
        *,
        lengths: Tensor | None = None,
        context: Context | None = None,
        samples: int | None = None,
        generator: Generator | None = None,
    ) -> Tensor:
        """The exact log-likelihood of each video in nats, given its length, (B,); without ``lengths`` none is padded.

        Nothing is drawn, so ``samples`` and ``generator`` are refused.
        """
        self._draws_nothing(samples, generator)
        return self.step_log_probs(x, lengths=lengths, context=context).sum(1)

    def step_log_probs(self, x: Tensor, *, lengths: Tensor | None = None, context: Context | None = None) -> Tensor:
        """The log-likelihood (1) of each frame given all before it, (B, T), and 0 in the padding."""
        model = bound(self, context, len(x))
        model.check_values(model._frames(x, lengths)[0])
        noise, log_det = model._noise_and_volume(x, lengths)
        square = full(noise).square().sum(-1)
        log_p: Tensor = log_det - 0.5 * square - 0.5 * self.dimensions * math.log(2 * math.pi)
        return log_p if lengths is None else log_p.masked_fill(~valid_positions(x, lengths), 0)

    def score(self, x: Tensor, *, lengths: Tensor | None = None, context: Context | None = None) -> Tensor:
        """The gradient of the log-density at each video, in the shape of ``x``, and 0 in the padding."""
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(self.log_prob(x, lengths=lengths, context=context).sum(), x)
        return gradient

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return self.to_latent(x, lengths)

    def to_latent(self, x: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The noise of each video, (B, T values), and log |det dnoise/dx|, (B,); the padding has none and counts 0."""
        noise, log_det = self._noise_and_volume(x, lengths)
        if lengths is not None:
            inside = valid_positions(x, lengths)
            noise, log_det = noise.masked_fill(~inside.unsqueeze(2), 0), log_det.masked_fill(~inside, 0)
        return noise.flatten(1), log_det.sum(1)

    def to_data(self, z: Tensor) -> Tensor:
        """The videos of noise (B, T values), as many frames as it has values for."""
        return self._videos(self._latents_of(z.unflatten(1, (-1, self.dimensions)), self._start()))

    def to_data_with_log_det(self, z: Tensor) -> tuple[Tensor, Tensor]:
        x = self.to_data(z)
        return x, -self.to_latent(x)[1]

    @torch.no_grad()
    def forecast(
        self,
        past: Videos | Tensor,
        steps: int,
        *,
        samples: int = 100,
        context: Context | None = None,
        generator: Generator | None = None,
    ) -> Tensor:
        """Sample paths of the frames after the end of each video, (samples, B, steps, channels, height, width)."""
        at_least(1, steps=steps, samples=samples)
        bound(self, context, len(past))
        x, lengths = (past.x, past.lengths) if isinstance(past, Videos) else (past, full_lengths(past))
        self._check(x, lengths)
        what = f"{samples:,} continuations of {steps:,} frames for each of {len(x):,} videos"
        values = samples * len(x) * steps * self.dimensions
        need(COPIES * x.element_size() * values, what, "draw fewer paths or frames at a time")
        state = self._start()
        for step, latent in enumerate(self._latents(x, lengths)[0].unbind(1)):
            pairs = zip(self._updated(state, latent), state, strict=True)
            state = tuple(torch.where((lengths > step).unsqueeze(1), new, old) for new, old in pairs)
        shape = (samples * len(x), steps, self.dimensions)
        noise = torch.randn(shape, generator=generator, dtype=x.dtype, device=x.device)
        drawn = self._videos(self._latents_of(noise, tuple(part.repeat(samples, 1) for part in state)))
        return drawn.reshape(samples, len(x), *drawn.shape[1:])

    def _noise_and_volume(self, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        """The noise of each frame, (B, T, D), and log |det dnoise/dx|, (B, T); in the padding they mean nothing."""
        latents, log_det = self._latents(x, lengths)
        state, noise, change = self._start(), [], []
        for latent in latents.unbind(1):
            mean, scale = self._predicted(state)
            noise.append((latent - mean) / scale)
            change.append(-scale.log().sum(-1))
            state = self._updated(state, latent)
        return torch.stack(noise, 1), log_det + torch.stack(change, 1)

    def _latents_of(self, noise: Tensor, state: State) -> Tensor:
        """The latents that noise (B, T, D) gives from a state on."""
        latents = []
        for each in noise.unbind(1):
            mean, scale = self._predicted(state)
            latents.append(mean + scale * each)
            state = self._updated(state, latents[-1])
        return torch.stack(latents, 1)

    def _latents(self, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        """The latents of all frames, (B, T, D), and log |det du/dx| of each, (B, T); the padding has any."""
        rows, steps = x.shape[:2]
        frames, inside = self._frames(x, lengths)
        latents, log_det = self.flow(frames)
        if inside is not None:
            latents = latents.new_zeros(rows * steps, self.dimensions).index_copy(0, inside, latents)
            log_det = log_det.new_zeros(rows * steps).index_copy(0, inside, log_det)
        return latents.reshape(rows, steps, self.dimensions), log_det.reshape(rows, steps)

    def _frames(self, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The frames that count, and where they stand among all frames; None where all are given.

        Where lengths cannot be looked at, as in an export, the frames of the padding are zeros, not left out.
        """
        self._check(x, lengths)
        if lengths is None:
            return x.flatten(0, 1), None
        if not shows_values(lengths):
            return without_padding(x, lengths).flatten(0, 1), None
        inside = valid_positions(x, lengths).flatten().nonzero().squeeze(1)
        return x.flatten(0, 1).index_select(0, inside), inside

    def _videos(self, z: Tensor) -> Tensor:
        """The videos with these latents of their frames, (B, T, D)."""
        return self.flow.inverse(z.flatten(0, 1)).reshape(*z.shape[:2], *self.shape)

    def _inputs_of(self, batch: Videos) -> Tensor:
        return batch.frames

    def _check(self, x: Tensor, lengths: Tensor | None) -> None:
        """Refuse videos whose frames have another shape, and lengths that are none."""
        if x.ndim != 5 or x.shape[2:] != self.shape:
            wanted = ", ".join(map(str, self.shape))
            raise DataError(f"the model takes videos of the shape (B, T, {wanted}), got {tuple(x.shape)}")
        if lengths is not None:
            check_lengths(x, lengths)
