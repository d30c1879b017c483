"""Standardizing agrees with NumPy for any batches, is inverted, and has its log-determinant."""

import numpy as np
import torch

from deepcanon.core import Batch
from deepcanon.nn.standardize import Standardize


def test_mean_and_std_are_those_of_all_the_data_however_they_are_cut() -> None:
    x = torch.randn(101, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 1e-3, 50.0]) + 1e3
    layer = Standardize(3)
    layer.fit(Batch(part) for part in x.split(7))
    assert np.allclose(layer.mean, x.double().numpy().mean(0), rtol=1e-6)
    assert np.allclose(layer.std, x.double().numpy().std(0), rtol=1e-5)


def test_it_is_inverted_and_its_volume_is_the_jacobian_s() -> None:
    layer = Standardize(2).double()
    layer.fit([Batch(torch.tensor([[1.0, 5.0], [2.0, 9.0], [4.0, 7.0]]))])
    x = torch.tensor([[0.3, -2.0], [1.0, 4.0]], dtype=torch.float64)
    assert torch.allclose(layer.inverse(layer(x)), x, atol=1e-12)
    jacobian = torch.autograd.functional.jacobian(layer, x[0])
    assert torch.allclose(torch.linalg.slogdet(jacobian).logabsdet, layer.log_det())


def test_a_feature_that_never_varies_keeps_its_unit() -> None:
    layer = Standardize(2)
    layer.fit([Batch(torch.tensor([[1e6, 0.0], [1e6, 2.0]]))])
    assert layer.std.tolist() == [1.0, 1.0]
    assert layer(torch.tensor([[1e6 + 3, 1.0]])).tolist() == [[3.0, 0.0]]
