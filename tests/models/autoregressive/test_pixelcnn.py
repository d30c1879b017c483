"""The PixelCNN: all images by enumeration, causality by gradient, and its likelihood against NADE's and MADE's."""

import math
from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Generator, Tensor

from deepcanon.core import Batch, Blueprint, DataError, Model, UsageError
from deepcanon.data import from_tensors, load_data
from deepcanon.data.suits import default_data, mismatch
from deepcanon.models.autoregressive.made import MADE
from deepcanon.models.autoregressive.nade import NADE
from deepcanon.models.autoregressive.pixelcnn import PixelCNN
from deepcanon.train import evaluate, fit


def model_of(channels: int, height: int, width: int, levels: int) -> PixelCNN:
    """A model of random weights, large enough that no two images are equally probable."""
    torch.manual_seed(0)
    model = PixelCNN(channels, height, width, levels, maps=4 * channels, layers=3, reach=1).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return model


def every_image(channels: int, height: int, width: int, levels: int) -> Tensor:
    values = product(range(levels), repeat=channels * height * width)
    return torch.tensor(list(values), dtype=torch.float64).reshape(-1, channels, height, width)


@pytest.mark.parametrize(
    ("channels", "height", "width", "levels"), [(1, 2, 2, 3), (2, 1, 3, 3), (3, 2, 1, 3), (1, 3, 3, 2), (1, 1, 3, 17)]
)
def test_the_probabilities_of_all_images_sum_to_one(channels: int, height: int, width: int, levels: int) -> None:
    model = model_of(channels, height, width, levels)
    with torch.no_grad():
        log_prob = model.log_prob(every_image(channels, height, width, levels))
    assert abs(float(log_prob.exp().sum()) - 1) < 1e-12
    assert float(log_prob.std()) > 0.1


@pytest.mark.parametrize(("channels", "height", "width"), [(1, 4, 4), (3, 3, 3)])
def test_each_value_depends_on_all_values_before_it_and_on_no_other(channels: int, height: int, width: int) -> None:
    torch.manual_seed(0)
    model = PixelCNN(channels, height, width, 4, maps=12 * channels, layers=5, reach=1).double()
    x = torch.randint(0, 4, (1, channels, height, width)).double().requires_grad_()
    logits = model.logits(x).square().sum(1)[0].permute(1, 2, 0).flatten()  # in the order of the values
    rows = [torch.autograd.grad(value, x, retain_graph=True)[0][0].permute(1, 2, 0).flatten() for value in logits]
    before = torch.ones(len(rows), len(rows)).tril(-1).bool()
    assert torch.equal(torch.stack(rows) != 0, before)


def test_log_prob_is_the_sum_of_the_log_probabilities_of_the_values() -> None:
    model = model_of(2, 3, 3, 4)
    x = torch.randint(0, 4, (5, 2, 3, 3)).double()
    with torch.no_grad():
        shares = model(x)
        torch.testing.assert_close(shares.sum(1), torch.ones_like(x))
        wanted = shares.gather(1, x.long().unsqueeze(1)).log().flatten(1).sum(1)
        torch.testing.assert_close(model.log_prob(x), wanted)
        torch.testing.assert_close(model.log_prob(x.flatten(1)), wanted)
        metrics = model.metrics(Batch(x))
    torch.testing.assert_close(metrics["bits_per_dim"], -wanted.mean() / (18 * math.log(2)))


def test_rows_below_do_not_change_the_logits_so_sampling_may_leave_them_out() -> None:
    model = model_of(1, 5, 4, 3)
    x = torch.randint(0, 3, (3, 1, 5, 4)).double()
    with torch.no_grad():
        torch.testing.assert_close(model.logits(x[:, :, :2]), model.logits(x)[..., :2, :])


def test_samples_follow_the_probabilities_of_each_image() -> None:
    model = model_of(1, 2, 2, 2)
    x = every_image(1, 2, 2, 2)
    drawn = model.sample(20_000, generator=Generator().manual_seed(0))
    counts = (drawn.flatten(1) @ torch.tensor([8.0, 4, 2, 1]).double()).long().bincount(minlength=16)
    with torch.no_grad():
        expected = 20_000 * model.log_prob(x).exp()
    assert ((counts - expected).abs() < 5 * expected.sqrt() + 3).all()
    assert drawn.shape == (20_000, 1, 2, 2)
    again = model.sample(100, generator=Generator().manual_seed(3))
    assert torch.equal(again, model.sample(100, generator=Generator().manual_seed(3)))


def test_by_default_it_gets_digits_in_gray_levels() -> None:
    data = default_data(Blueprint(PixelCNN))
    assert (data.name, data.sizes["levels"]) == ("digits:levels", 17)
    assert set(data.train.x.unique().tolist()) == set(range(17))
    assert mismatch(PixelCNN, load_data("digits:binary")) is None
    assert "say digits:levels" in (mismatch(PixelCNN, load_data("digits")) or "")
    images = from_tensors(torch.zeros(4, 1, 2, 2))
    assert mismatch(Blueprint(PixelCNN, {"levels": 4}), images) is None
    assert mismatch(PixelCNN, images) == "pixelcnn needs levels, which tensors does not have"


def test_what_cannot_be_is_refused() -> None:
    model = PixelCNN(1, 2, 2, levels=4, maps=4, layers=1)
    with pytest.raises(DataError, match="gray levels 0 to 3, but the data go up to 4"):
        model.log_prob(torch.tensor([[0.0, 1, 2, 4]]))
    with pytest.raises(DataError, match="whole numbers from 0 on"):
        model.prepare([Batch(torch.full((2, 1, 2, 2), 0.5))])
    with pytest.raises(DataError, match="images of 1x2x2 values"):
        model.log_prob(torch.zeros(3, 1, 2, 3))
    with pytest.raises(UsageError, match="levels must be at least 2"):
        PixelCNN(1, 2, 2, levels=1)
    with pytest.raises(UsageError, match="not a conditional model"):
        model.log_prob(torch.zeros(1, 1, 2, 2), context=torch.tensor([0]))


@pytest.mark.slow
def test_on_binary_digits_its_likelihood_is_higher_than_that_of_nade_and_made_at_equal_epochs() -> None:
    data = load_data("digits:binary")
    builders: dict[str, Callable[[], Model[Batch]]] = {
        "pixelcnn": lambda: PixelCNN(1, 8, 8, levels=2, maps=24, layers=3),
        "nade": lambda: NADE(64),
        "made": lambda: MADE(64),
    }
    nll = {}
    for name, build in builders.items():
        torch.manual_seed(0)
        model = build()
        lr = 1e-2 if name == "pixelcnn" else 3e-3
        fit(model, data, quiet=True, seed=0, epochs=5, lr=lr, batch_size=64, schedule="linear")
        nll[name] = float(evaluate(model, data.split("test"))["nll"])
    assert nll["pixelcnn"] < min(nll["nade"], nll["made"]) - 0.5, nll
