"""The support vector machine: scikit-learn's optimum, the widest margin in closed form, and which examples matter."""

import pytest
import torch
from sklearn.svm import SVC, LinearSVC
from torch import Generator, Tensor

from deepcanon.core import Labeled, UsageError
from deepcanon.data import from_tensors, load_data
from deepcanon.models.linear.svm import SVM
from deepcanon.train import fit


def clouds(classes: int) -> Labeled:
    """Gaussian clouds in the corners of a polygon, which no planes separate."""
    y = torch.arange(120) % classes
    angle = 2 * torch.pi * y.double() / classes
    x = torch.randn(120, 2, generator=Generator().manual_seed(0), dtype=torch.float64)
    return Labeled(x + 1.2 * torch.stack([angle.cos(), angle.sin()], 1) + 0.5, y)


def trained(batch: Labeled, decay: float, classes: int = 2) -> SVM:
    """By the default recipe."""
    model = SVM(batch.x.shape[1], classes, decay=decay).double()
    fit(model, from_tensors(batch.x, batch.y), quiet=True)
    return model


@pytest.fixture(scope="module")
def of_two() -> tuple[SVM, Labeled]:
    return trained(clouds(2), decay=1e-2), clouds(2)


@pytest.fixture(scope="module")
def of_three() -> tuple[SVM, Labeled]:
    return trained(clouds(3), decay=1e-2, classes=3), clouds(3)


def objective(model: SVM, batch: Labeled) -> float:
    return float(sum(value.item() for value in model.loss(batch).values()))


def at(weight: Tensor, bias: Tensor, like: SVM) -> SVM:
    """The machine with these weights."""
    model = SVM(like.features, like.classes, decay=like.decay).double()
    with torch.no_grad():
        model.linear.weight.copy_(weight)
        model.linear.bias.copy_(bias)
    return model


def scikit_learns(model: SVM, batch: Labeled) -> SVM:
    """The machine at the optimum that the dual problem has in scikit-learn."""
    oracle = SVC(kernel="linear", C=1 / (model.decay * len(batch)), tol=1e-8).fit(batch.x.numpy(), batch.y.numpy())
    return at(torch.tensor(oracle.coef_), torch.tensor(oracle.intercept_), model)


@pytest.mark.slow
def test_the_default_recipe_finds_scikit_learns_optimum(of_two: tuple[SVM, Labeled]) -> None:
    model, batch = of_two
    oracle = scikit_learns(model, batch)
    assert objective(model, batch) == pytest.approx(objective(oracle, batch), rel=1e-5)
    torch.testing.assert_close(model.linear.weight, oracle.linear.weight, rtol=0, atol=1e-3)
    torch.testing.assert_close(model.linear.bias, oracle.linear.bias, rtol=0, atol=2e-3)


@pytest.mark.slow
def test_of_many_features_the_optimum_is_scikit_learns_too() -> None:
    """Odd against even digits, 64 pixels each."""
    data = load_data("digits").train
    batch = Labeled(data.x.flatten(1).double(), data.y % 2)
    model = trained(batch, decay=1e-3)
    assert objective(model, batch) == pytest.approx(objective(scikit_learns(model, batch), batch), rel=1e-4)


@pytest.mark.slow
def test_several_classes_have_the_optimum_of_crammer_and_singer(of_three: tuple[SVM, Labeled]) -> None:
    model, batch = of_three
    # scikit-learn's bias is the weight of a constant feature: the larger that is, the less it counts in the penalty.
    oracle = LinearSVC(
        loss="hinge", multi_class="crammer_singer", C=1 / (model.decay * len(batch)), intercept_scaling=10.0,
        tol=1e-10, max_iter=200_000, random_state=0,
    ).fit(batch.x.numpy(), batch.y.numpy())  # fmt: skip
    best = at(torch.tensor(oracle.coef_), torch.tensor(oracle.intercept_), model)
    assert objective(model, batch) == pytest.approx(objective(best, batch), rel=5e-5)


@pytest.mark.slow
def test_between_two_examples_the_plane_lies_in_the_middle() -> None:
    r"""The widest margin is their distance: :math:`w = 2 d / \lVert d \rVert^2`, :math:`d = x_1 - x_0`."""
    x = torch.tensor([[1.0, 2.0], [3.0, 1.0]], dtype=torch.float64)
    batch = Labeled(x, torch.tensor([0, 1]))
    model = trained(batch, decay=0.5)
    between = x[1] - x[0]
    torch.testing.assert_close(model.linear.weight[0], 2 * between / between.square().sum(), rtol=0, atol=5e-3)
    lead = model(torch.stack([x[0], x.mean(0), x[1]]))[:, 1]
    torch.testing.assert_close(lead, torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64), rtol=0, atol=1e-3)


@pytest.mark.slow
def test_only_support_vectors_matter(of_two: tuple[SVM, Labeled]) -> None:
    model, batch = of_two
    lead = (2 * batch.y - 1) * (model(batch.x)[:, 1])
    support = Labeled(batch.x[lead < 1 + 1e-3], batch.y[lead < 1 + 1e-3])
    assert 0 < len(support) < 0.8 * len(batch)
    again = trained(support, decay=1e-2 * len(batch) / len(support))  # the penalty of one example stays as it was
    torch.testing.assert_close(again.linear.weight, model.linear.weight, rtol=0, atol=2e-3)
    torch.testing.assert_close(again.linear.bias, model.linear.bias, rtol=0, atol=2e-3)


@pytest.mark.slow
def test_its_predictions_are_certain_and_its_hinge_loss_bounds_the_error_rate(
    of_three: tuple[SVM, Labeled],
) -> None:
    model, batch = of_three
    said = model.predict(batch.x)
    assert torch.equal(said, model(batch.x).argmax(1))
    assert torch.equal(model.predict(batch.x, how="sample"), said)
    assert torch.equal(model.predict(batch.x, how="mean"), torch.nn.functional.one_hot(said, 3).double())
    metrics = model.metrics(batch)
    assert metrics["accuracy"].item() == pytest.approx((said == batch.y).double().mean().item())
    assert 1 - metrics["accuracy"] < metrics["hinge"] < 1


@pytest.mark.slow
def test_it_reads_95_percent_of_real_digits() -> None:
    result = fit(SVM(64, classes=10), load_data("digits"), quiet=True)
    assert result.test["accuracy"] >= 0.95


def test_arguments_are_checked() -> None:
    with pytest.raises(UsageError, match="classes must be at least 2"):
        SVM(features=2, classes=1)
    with pytest.raises(UsageError, match="decay is the weight of a penalty"):
        SVM(features=2, classes=2, decay=-1.0)
    with pytest.raises(UsageError, match="mode, mean, sample"):
        SVM(features=2, classes=2).predict(torch.zeros(1, 2), how="median")  # type: ignore[arg-type]
