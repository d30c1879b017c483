import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from sklearn.decomposition import PCA
from sklearn.metrics import r2_score
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.pictures import decision_map, latent_map, scatter, truth_plot
from deepcanon.pictures.points import function_plot, principal_plane
from deepcanon.pictures.style import colors


def cloud(count: int, size: int) -> Tensor:
    random = torch.Generator().manual_seed(0)
    return torch.randn(count, size, generator=random) * torch.arange(1, size + 1)


def test_codes_lie_on_the_principal_components_of_scikit_learn() -> None:
    z = cloud(60, 5)
    plane, names = principal_plane(z)
    oracle = PCA(2).fit(z.double().numpy())
    assert np.allclose(np.abs(plane.numpy()), np.abs(oracle.transform(z.double().numpy())))
    assert names[0] == f"component 1 ({oracle.explained_variance_ratio_[0]:.0%} of the variance)"


def test_two_latent_values_are_shown_as_they_are() -> None:
    z = cloud(10, 2)
    plane, names = principal_plane(z)
    assert torch.equal(plane, z.double())
    assert names == ("latent 1", "latent 2")
    with pytest.raises(UsageError, match="at least two dimensions"):
        principal_plane(z[:, :1])


def test_components_do_not_flip_when_the_data_are_turned_round() -> None:
    z = cloud(60, 5)
    assert torch.allclose(principal_plane(z)[0].flip(0), principal_plane(z.flip(0))[0])


def test_codes_at_one_place_are_drawn_side_by_side() -> None:
    """Of binary codes each example is seen, and not far from its place; codes that differ stay where they are."""
    z = torch.tensor([[0.0, 0.0]] * 30 + [[1.0, 0.0]] * 5 + [[0.0, 1.0]])
    drawn = torch.cat(
        [torch.as_tensor(each.get_offsets()) for each in latent_map(z, torch.zeros(36).long()).axes[0].collections]
    )
    assert len(drawn.unique(dim=0)) == 36
    assert (drawn - z).abs().max() < 0.05
    apart = torch.randn(20, 2)
    (only,) = latent_map(apart, torch.zeros(20).long()).axes[0].collections
    assert torch.equal(torch.as_tensor(only.get_offsets()).float(), apart)


def test_a_latent_map_draws_and_names_every_class() -> None:
    z, y = cloud(30, 3), torch.arange(30) % 3
    axes = latent_map(z, y, ("a", "b", "c")).axes[0]
    assert [text.get_text() for text in axes.texts] == ["a", "b", "c"]
    drawn = [np.asarray(group.get_offsets()) for group in axes.collections]
    assert np.allclose(drawn[1], principal_plane(z)[0][y == 1].numpy())


def test_a_decision_map_has_the_color_of_the_class_on_each_side() -> None:
    x = torch.tensor([[-1.0, -1.0], [1.0, 1.0], [-1.0, 1.0], [1.0, -1.0]])

    def predict(points: Tensor) -> Tensor:
        right = (points[:, :1] > 0).float()
        return torch.cat([1 - right, right], 1)

    axes = decision_map(predict, x, (x[:, 0] > 0).long()).axes[0]
    picture = np.asarray(axes.images[0].get_array())
    left, right = (1 - 0.5 * (1 - np.array(to_rgb(color))) for color in colors(2))
    assert np.allclose(picture[5, 5], left, atol=1e-6)
    assert np.allclose(picture[-5, -5], right, atol=1e-6)


def test_a_decision_map_is_not_mirrored() -> None:
    x = torch.tensor([[0.0, 0.0], [2.0, 1.0]])

    def predict(points: Tensor) -> Tensor:
        corner = ((points[:, :1] > 1.5) & (points[:, 1:] < 0.3)).float()  # right and below
        return torch.cat([1 - corner, corner], 1)

    axes = decision_map(predict, x, torch.tensor([0, 1])).axes[0]
    picture = np.asarray(axes.images[0].get_array())  # its first row lies below
    odd = (np.abs(picture - picture[-1, 0]).max(-1) > 0.01).nonzero()
    assert odd[0].max() < 120 < odd[1].min()


def test_clouds_share_the_axes_of_the_first_and_say_what_lies_outside() -> None:
    data, samples = cloud(100, 2), torch.full((100, 2), 99.0)
    samples[:50] = 0
    left, right = scatter({"data": data, "samples": samples}).axes
    assert left.get_xlim() == right.get_xlim()
    assert left.get_title(loc="left") == "data: 100 examples"
    assert right.get_title(loc="left") == "samples: 100 examples (50% outside)"
    with pytest.raises(UsageError, match="got 3 values per example"):
        scatter({"data": cloud(5, 3)})


def test_predictions_against_truth_say_the_explained_variance() -> None:
    truth = cloud(40, 2)
    guess = truth + torch.randn(40, 2, generator=torch.Generator().manual_seed(1))
    first, second = truth_plot(guess, truth).axes
    for j, axes in enumerate((first, second)):
        score = r2_score(truth[:, j].numpy(), guess[:, j].numpy())
        assert axes.get_title(loc="left") == f"target {j + 1}: R² = {score:.3f}"
    constant = truth_plot(torch.zeros(3, 1), torch.zeros(3, 1)).axes[0]
    assert "constant" in constant.get_title(loc="left")


def test_a_function_of_the_line_is_drawn_over_its_examples() -> None:
    x = cloud(30, 1)
    (axes,) = function_plot(lambda places: 2 * places, x, x.square()).axes
    places, values = axes.lines[0].get_data()
    assert np.allclose(np.asarray(values), 2 * np.asarray(places))
    assert np.asarray(places)[[0, -1]] == pytest.approx([float(x.min()), float(x.max())])
    assert np.allclose(np.asarray(axes.collections[0].get_offsets())[:, 1], x.square()[:, 0])
