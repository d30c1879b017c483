"""Each law of models of videos is shown a model that breaks it; a healthy one keeps them all."""

from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from deepcanon.core import Batch, Context, Terms, UsageError, Videos
from deepcanon.core.padding import full_lengths
from deepcanon.laws import check, report
from deepcanon.laws import videos as laws
from deepcanon.laws.outcome import Law
from deepcanon.models.flows._sequence_flow import State
from deepcanon.models.flows.video_flow import VideoFlow


class ReadsPadding(VideoFlow):
    """The sum of all frames, padding among them, counts a little."""

    def step_log_probs(self, x: Tensor, *, lengths: Tensor | None = None, context: Context | None = None) -> Tensor:
        return super().step_log_probs(x, lengths=lengths) + 1e-6 * x.flatten(1).sum(1, keepdim=True)


class CountsPadding(VideoFlow):
    """Frames of the padding have a likelihood, too."""

    def step_log_probs(self, x: Tensor, *, lengths: Tensor | None = None, context: Context | None = None) -> Tensor:
        return super().step_log_probs(x.nan_to_num(), lengths=full_lengths(x))


class Mixes(VideoFlow):
    """Latents are centered over the batch."""

    def _latents(self, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        latents, log_det = super()._latents(x, lengths)
        return latents - latents.mean(0), log_det


class PerVideo(VideoFlow):
    """The loss is a mean over videos."""

    def loss(self, batch: Videos) -> Terms:
        return {"nll": -self.log_prob(batch.x, lengths=batch.lengths).mean()}


class LooksAhead(VideoFlow):
    """The steps of the likelihood are in reverse order; their sum is still right."""

    def step_log_probs(self, x: Tensor, *, lengths: Tensor | None = None, context: Context | None = None) -> Tensor:
        return super().step_log_probs(x, lengths=lengths).flip(1)


class OwnSum(VideoFlow):
    """The likelihood of a video is not the sum of its steps."""

    def log_prob(self, x: Tensor, **options: Any) -> Tensor:
        return super().log_prob(x, **options) - 1


class Forecasting(VideoFlow):
    """Forecasts by other means."""

    def forecast(self, past: Videos | Tensor, steps: int, **options: Any) -> Tensor:
        return super().forecast(past, steps, **options)


class OnePath(Forecasting):
    """All paths are the same."""

    def forecast(self, past: Videos | Tensor, steps: int, *, samples: int = 100, **options: Any) -> Tensor:
        return super().forecast(past, steps, samples=1, **options).expand(samples, *[-1] * 5)


class Global(Forecasting):
    """The generator is not used."""

    def forecast(
        self, past: Videos | Tensor, steps: int, *, generator: Generator | None = None, **options: Any
    ) -> Tensor:
        return super().forecast(past, steps, **options)


class FromThePaddedEnd(Forecasting):
    """The forecast follows on the last frame of the padding."""

    def forecast(self, past: Videos | Tensor, steps: int, **options: Any) -> Tensor:
        return super().forecast(past.x if isinstance(past, Videos) else past, steps, **options)


class StandsStill(Forecasting):
    """Forecasts have the scale of the walk's steps without what is unknown of the walk."""

    def _latents_of(self, noise: Tensor, state: State) -> Tensor:
        return super()._latents_of(0.9 * noise, state)


CASES: list[tuple[Law, type[VideoFlow]]] = [
    (laws.padding_is_never_read, ReadsPadding),
    (laws.padding_is_never_read, FromThePaddedEnd),
    (laws.more_padding_changes_nothing, CountsPadding),
    (laws.videos_do_not_mix, Mixes),
    (laws.loss_is_nll_per_frame, PerVideo),
    (laws.frames_add_up_to_the_video, LooksAhead),
    (laws.frames_add_up_to_the_video, OwnSum),
    (laws.forecasts_have_their_shape_and_generator, OnePath),
    (laws.forecasts_have_their_shape_and_generator, Global),
    (laws.forecasts_follow_the_likelihood, StandsStill),
]


@pytest.mark.parametrize(("law", "model"), CASES, ids=lambda case: case.__name__)
def test_each_law_catches_the_fault_it_is_for(law: Law, model: type[VideoFlow]) -> None:
    torch.manual_seed(0)
    found = law(*model.example())
    assert found is not None
    assert not found.holds, found.detail
    assert "raised" not in found.detail


@pytest.mark.slow
def test_a_healthy_model_keeps_them_all_with_and_without_noise() -> None:
    _, batch = VideoFlow.example()
    for noise in (True, False):
        torch.manual_seed(0)
        model = VideoFlow(1, 2, 2, length=3, scales=1, depth=2, hidden=4, noise=noise)
        found = check((model, batch), "videos")
        assert len(found) == len(laws.LAWS)
        assert all(outcome.holds for outcome in found), report(found)


def test_they_are_laws_of_videos_alone() -> None:
    model, _ = VideoFlow.example()
    with pytest.raises(UsageError, match="on a batch of Videos, got Batch"):
        check((model, Batch(torch.randn(3, 12))), "videos")
