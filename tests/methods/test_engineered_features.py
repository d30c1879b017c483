"""Engineered features are scikit-learn's, and make rings linearly separable; a run keeps them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression as Peer
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import PolynomialFeatures

import deepcanon as dc
from deepcanon.core import Labeled, UsageError
from deepcanon.methods.engineered_features import EngineeredFeatures
from deepcanon.models.energy.rbm import RBM
from deepcanon.models.linear.linear_regression import LinearRegression
from deepcanon.models.linear.logistic_regression import LogisticRegression
from deepcanon.models.linear.perceptron import Perceptron


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_monomials_are_those_of_scikit_learn(degree: int) -> None:
    x = drawn(20, 3)
    method = EngineeredFeatures(LinearRegression(features=3, targets=1).double(), degree=degree)
    wanted = PolynomialFeatures(degree, include_bias=False).fit_transform(x.numpy())
    np.testing.assert_allclose(method.features(x).numpy(), wanted, rtol=1e-12)
    assert method.model.hparams["features"] == wanted.shape[1]


def test_radial_features_are_the_kernel_of_scikit_learn() -> None:
    x = drawn(40, 3)
    for width in (None, 0.7):
        method = EngineeredFeatures(LinearRegression(features=3, targets=1).double(), 1, False, 5, width)
        method.prepare([Labeled(x[:20], x[:20, :1]), Labeled(x[20:], x[20:, :1])])
        scale = float(method.scale)
        assert scale == (width or float(torch.pdist(method.places).median()))
        wanted = rbf_kernel(x.numpy(), method.places.numpy(), gamma=1 / (2 * scale**2))
        np.testing.assert_allclose(method.features(x)[:, 3:].numpy(), wanted, rtol=1e-10)
        assert all(any(torch.equal(center, row) for row in x) for center in method.places)


def test_a_regression_on_them_is_that_of_least_squares() -> None:
    x = drawn(60, 2)
    y = (x[:, :1] * x[:, 1:]).sin() + 0.1 * drawn(60, 1, seed=1)
    method = EngineeredFeatures(LinearRegression(features=2, targets=1).double(), degree=3)
    dc.fit(method, dc.from_tensors(x, y), quiet=True)
    basis = np.column_stack([np.ones(60), PolynomialFeatures(3, include_bias=False).fit_transform(x.numpy())])
    wanted = basis @ np.linalg.lstsq(basis, y.numpy(), rcond=None)[0]
    np.testing.assert_allclose(method.predict(x).numpy(), wanted, atol=1e-6)


@pytest.mark.slow
def test_rings_are_linear_in_the_squared_radius_and_not_in_the_plane() -> None:
    rings = dc.load_data("rings")
    assert rings.test is not None
    x, y = rings.test.x, rings.test.y
    plain = LogisticRegression(features=2)
    dc.fit(plain, rings, quiet=True)
    peer = Peer().fit(rings.train.x.numpy(), rings.train.y.numpy())
    guessing = float((plain.predict(x) == y).double().mean())
    assert abs(guessing - peer.score(x.numpy(), y.numpy())) < 0.1
    assert guessing < 0.7
    for settings in ({"degree": 1, "circle": True}, {"degree": 2}, {"degree": 1, "centers": 20}):
        method = EngineeredFeatures(LogisticRegression(features=2), **settings)  # type: ignore[arg-type]
        dc.fit(method, rings, quiet=True)
        assert float((method.predict(x) == y).double().mean()) > 0.95, settings


def test_a_model_with_a_rule_of_its_own_learns_from_them() -> None:
    x = drawn(200, 2)
    radius = x.square().sum(1)
    keep = (radius - 1.5).abs() > 0.4
    data = dc.from_tensors(x[keep], (radius > 1.5).long()[keep])
    method = EngineeredFeatures(Perceptron(features=2, classes=2).double(), degree=1, circle=True)
    assert dc.fit(method, data, quiet=True, epochs=200).train["converged"] == 1


@pytest.mark.slow
def test_a_run_keeps_its_features(tmp_path: Path) -> None:
    run = dc.Run.train("engineered_features:degree=1,centers=6", "rings", out=tmp_path / "run", steps=20, quiet=True)
    again = dc.Run(run.dir)
    assert run.plain is run.model
    pytest.importorskip("onnxruntime", reason="needs deepcanon[onnx]")
    apart = run.export(tmp_path / "model.onnx")  # what is exported has the features, too
    assert apart is not None
    assert apart < 1e-5
    x = dc.load_data("rings").train.x[:5]
    assert torch.equal(again.model.features(x), run.model.features(x))  # type: ignore[operator]
    assert torch.equal(again.model.predict(x, how="mean"), run.model.predict(x, how="mean"))  # type: ignore[operator]


def test_what_cannot_be_engineered_is_refused() -> None:
    with pytest.raises(UsageError, match="that predicts from features"):
        EngineeredFeatures(RBM(features=3))
    with pytest.raises(UsageError, match="needs centers"):
        EngineeredFeatures(LogisticRegression(features=2), spread=1.0)
    with pytest.raises(UsageError, match="are too many"):
        EngineeredFeatures(LogisticRegression(features=64), degree=5)
    with pytest.raises(UsageError, match="3 centers need as many different examples; there are 2"):
        EngineeredFeatures(LogisticRegression(features=1), centers=3).prepare(
            [Labeled(torch.tensor([[0.0], [1.0], [1.0]]), torch.tensor([0, 1, 1]))]
        )
