"""The conditional PixelCNN: a distribution over all images for each class, and samples by class."""

from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor

from deepcanon.core import DataError, UsageError
from deepcanon.models.autoregressive.conditional_pixelcnn import ConditionalPixelCNN
from deepcanon.models.autoregressive.gated_pixelcnn import GatedPixelCNN


def model_of(classes: int = 3) -> ConditionalPixelCNN:
    torch.manual_seed(0)
    model = ConditionalPixelCNN(1, 2, 2, levels=3, classes=classes, maps=12, layers=2, reach=1).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return model


def test_for_each_class_the_probabilities_of_all_images_sum_to_one() -> None:
    model, values = model_of(), torch.arange(3.0, dtype=torch.float64)
    x = torch.cartesian_prod(values, values, values, values).reshape(-1, 1, 2, 2)
    with torch.no_grad():
        found = torch.stack([model.given(label).log_prob(x) for label in range(3)])
        together = model.log_prob(x[:3], context=torch.arange(3))
    torch.testing.assert_close(found.exp().sum(1), torch.ones(3, dtype=torch.float64))
    torch.testing.assert_close(together, found[:, :3].diagonal())
    assert float((found[0] - found[1]).abs().max()) > 0.1


def test_where_no_class_has_a_bias_it_is_a_gated_pixelcnn() -> None:
    model = model_of()
    plain = GatedPixelCNN(1, 2, 2, levels=3, maps=12, layers=2, reach=1).double()
    state = model.state_dict()
    state.pop("net.biases.weight").zero_()
    plain.load_state_dict(state)
    x = torch.randint(0, 3, (6, 1, 2, 2)).double()
    torch.testing.assert_close(model.log_prob(x, context=torch.arange(6) % 3), plain.log_prob(x))


def test_samples_of_a_class_follow_its_probabilities() -> None:
    model = model_of()
    drawn = model.sample(9000, context=torch.arange(3).repeat(3000), generator=Generator().manual_seed(0))
    first = torch.arange(3.0, dtype=torch.float64)
    for label in range(3):
        with torch.no_grad():
            shares = model.given(label)(torch.zeros(1, 1, 2, 2, dtype=torch.float64))[0, :, 0, 0, 0]
        counts = (drawn[label::3, 0, 0, 0].unsqueeze(1) == first).sum(0)
        assert ((counts / 3000 - shares).abs() < 0.05).all()


def test_the_gallery_has_a_row_for_each_class() -> None:
    model, batch = ConditionalPixelCNN.example()
    shown = model.gallery(batch.x[:5], generator=Generator().manual_seed(0))
    assert list(shown) == [f"class {label}" for label in range(4)]
    assert all(row.shape == (5, 1, 2, 3) for row in shown.values())


def test_without_a_class_it_refuses_and_of_classes_it_takes_only_its_own() -> None:
    model, batch = ConditionalPixelCNN.example()
    asked: list[Callable[[], Tensor]] = [lambda: model.sample(3), lambda: model.log_prob(batch.x)]
    for ask in asked:
        with pytest.raises(UsageError, match="conditional_pixelcnn is conditional: give classes"):
            ask()
    with pytest.raises(DataError, match="classes 0 to 3, got the class 4"):
        model.sample(3, context=torch.tensor([4]))
    with pytest.raises(UsageError, match="classes must be at least 1"):
        ConditionalPixelCNN(1, 2, 2, levels=3, classes=0)
