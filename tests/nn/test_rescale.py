"""Rescaling: the mean and standard deviation of the data, and an affine map with its inverse."""

import numpy as np
import torch

from deepcanon.core import Batch
from deepcanon.nn.rescale import Rescale, mean_and_std


def test_mean_and_std_are_numpys_in_any_batches() -> None:
    x = 3 + 5 * torch.randn(101, 2, 2, generator=torch.Generator().manual_seed(0))
    rows = x.flatten(1).double().numpy()
    mean, std = mean_and_std([Batch(x[:40]), Batch(x[40:])])
    np.testing.assert_allclose(mean.numpy(), rows.mean(0), rtol=1e-12)
    np.testing.assert_allclose(std.item(), np.sqrt(rows.var(0).mean()), rtol=1e-12)


def test_a_map_and_its_inverse_cancel_and_a_new_one_does_nothing() -> None:
    x = torch.randn(7, 4, dtype=torch.float64)
    there, back = Rescale(4).double(), Rescale(4).double()
    assert torch.equal(there(x), x)
    scale, shift = torch.tensor(2.5), torch.arange(4.0)
    there.set(scale, shift)
    back.set(1 / scale, -shift / scale)
    torch.testing.assert_close(back(there(x)), x, rtol=1e-6, atol=1e-6)
    assert {"scale", "shift"} <= there.state_dict().keys()


def test_the_inverse_takes_back() -> None:
    layer = Rescale(3)
    layer.set(torch.tensor(4.0), torch.tensor([1.0, -2.0, 0.5]))
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(layer.inverse(layer(x)), x)
    assert not torch.allclose(layer(x), x)
