"""Supervised models: predictions that are the distribution's mode, mean and samples, and metrics that follow."""

import math

import pytest
import torch
from scipy import stats
from torch import Generator, Tensor, nn

from deepcanon.core import DataError, Labeled, UsageError
from deepcanon.models._predictor import Predictor


class Fixed(Predictor):
    """Gives the input back as the outputs."""

    def __init__(self, classes: int | None) -> None:
        super().__init__()
        self.classes = classes
        self.unused = nn.Parameter(torch.zeros(1))

    @classmethod
    def example(cls) -> tuple["Fixed", Labeled]:
        return cls(3), Labeled(torch.zeros(2, 3), torch.zeros(2, dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        return x


def test_mode_mean_and_draws_of_classes_agree_with_each_other() -> None:
    logits = torch.tensor([[0.0, 1.0, -1.0]], dtype=torch.float64).expand(30_000, 3)
    model = Fixed(classes=3)
    mean = model.predict(logits, how="mean")
    exact = [math.exp(value) / (1 + math.e + 1 / math.e) for value in (0, 1, -1)]
    torch.testing.assert_close(mean[0], torch.tensor(exact, dtype=torch.float64))
    assert model.predict(logits).tolist() == [1] * len(logits)
    drawn = model.predict(logits, how="sample", generator=Generator().manual_seed(0))
    counts = torch.bincount(drawn, minlength=3)
    assert stats.chisquare(counts.numpy(), (mean[0] * len(logits)).numpy()).pvalue > 1e-3


def test_draws_of_targets_have_unit_variance_around_the_mean() -> None:
    means = torch.tensor([[3.0, -5.0]], dtype=torch.float64).expand(20_000, 2)
    model = Fixed(classes=None)
    assert torch.equal(model.predict(means), means)
    assert torch.equal(model.predict(means, how="mean"), means)
    drawn = model.predict(means, how="sample", generator=Generator().manual_seed(0))
    for column, mean in zip(drawn.T.numpy(), (3.0, -5.0), strict=True):
        assert stats.kstest(column, stats.norm(mean, 1).cdf).pvalue > 1e-3


@pytest.mark.parametrize("classes", [3, None])
def test_draws_repeat_with_the_generator_and_leave_the_global_one_alone(classes: int | None) -> None:
    outputs, model = torch.randn(50, 3), Fixed(classes)
    state = torch.get_rng_state()
    first, again, other = (
        model.predict(outputs, how="sample", generator=Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_loss_of_classes_is_the_log_loss_that_is_reported() -> None:
    logits, y = torch.randn(40, 3, dtype=torch.float64), torch.arange(40) % 3
    model, batch = Fixed(classes=3), Labeled(logits, y)
    by_hand = -torch.stack([row.log_softmax(-1)[label] for row, label in zip(logits, y, strict=True)]).mean()
    torch.testing.assert_close(model.loss(batch)["nll"], by_hand)
    metrics = model.metrics(batch)
    torch.testing.assert_close(metrics["nll"], by_hand)
    assert metrics["accuracy"].item() == pytest.approx((logits.argmax(-1) == y).double().mean().item())


def test_the_loss_of_targets_is_the_squared_error_that_is_reported() -> None:
    means, y = torch.randn(2, 40, 2, dtype=torch.float64)
    model, batch = Fixed(classes=None), Labeled(means, y)
    by_hand = sum(float((a - b) ** 2) for a, b in zip(means.flatten(), y.flatten(), strict=True)) / 40
    assert model.loss(batch)["mse"].item() == pytest.approx(by_hand)
    assert model.metrics(batch)["mse"].item() == pytest.approx(by_hand)


def test_targets_that_would_be_broadcast_are_refused() -> None:
    with pytest.raises(DataError, match=r"shape \(4, 1\), got \(4,\)"):
        Fixed(classes=None).loss(Labeled(torch.zeros(4, 1), torch.zeros(4)))


def test_half_precision_outputs_give_a_full_precision_loss() -> None:
    model, batch = Fixed(classes=3), Labeled(torch.randn(8, 3).bfloat16(), torch.zeros(8, dtype=torch.long))
    assert model.loss(batch)["nll"].dtype == torch.float32


def test_an_unknown_way_to_predict_is_refused() -> None:
    with pytest.raises(UsageError, match="mode, mean, sample"):
        Fixed(classes=3).predict(torch.zeros(1, 3), how="median")  # type: ignore[arg-type]


def test_steps_of_a_mean_loss_keep_their_length_and_a_batch_divides_the_variance() -> None:
    r"""Of batches drawn with replacement: :math:`E g` and :math:`\sigma^2 / B`; of a sum, B times both."""
    generator = Generator().manual_seed(0)
    targets = torch.randn(50, 1, dtype=torch.float64, generator=generator)
    model = Fixed(classes=None)

    def gradients(index: Tensor) -> Tensor:
        """With respect to an output that all examples share, for each row of examples."""
        shift = torch.zeros(len(index), 1, 1, dtype=torch.float64, requires_grad=True)
        losses = [
            model.loss(Labeled(one.expand(len(row), 1), targets[row]))["mse"]
            for one, row in zip(shift, index, strict=True)
        ]
        (slopes,) = torch.autograd.grad(torch.stack(losses).sum(), shift)
        return slopes.flatten()

    each = gradients(torch.arange(50).unsqueeze(1))
    mean, variance = each.mean().item(), each.var(correction=0).item()
    for size in (2, 8):
        drawn = gradients(torch.randint(50, (1500, size), generator=generator))
        assert drawn.mean().item() == pytest.approx(mean, abs=4 * math.sqrt(variance / size / 1500))
        assert drawn.var().item() == pytest.approx(variance / size, rel=5 * math.sqrt(2 / 1500))
        assert (size * drawn).var().item() == pytest.approx(size * variance, rel=5 * math.sqrt(2 / 1500))
