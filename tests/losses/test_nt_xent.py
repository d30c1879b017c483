"""NT-Xent has the values that closed forms give, and the symmetries of its definition."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.special import logsumexp

from deepcanon.losses import nt_xent

N, TAU = 6, 0.3


def test_equal_embeddings_give_the_log_of_the_number_of_others() -> None:
    z = torch.randn(1, 5, dtype=torch.float64).expand(N, 5)
    assert nt_xent(z, z, TAU).item() == pytest.approx(math.log(2 * N - 1), abs=1e-12)


def test_aligned_views_with_orthonormal_negatives() -> None:
    z = torch.eye(N, dtype=torch.float64)
    assert nt_xent(z, z, TAU).item() == pytest.approx(math.log(1 + (2 * N - 2) * math.exp(-1 / TAU)), abs=1e-12)


def test_aligned_views_on_a_simplex() -> None:
    z = torch.eye(N, dtype=torch.float64) - 1 / N
    wanted = math.log(1 + (2 * N - 2) * math.exp(-N / ((N - 1) * TAU)))
    assert nt_xent(z, z, TAU).item() == pytest.approx(wanted, abs=1e-12)


def test_one_example_has_no_negatives() -> None:
    assert nt_xent(torch.randn(1, 4), torch.randn(1, 4)).item() == pytest.approx(0, abs=1e-6)


def test_it_is_the_sum_written_out() -> None:
    torch.manual_seed(0)
    one, other = torch.randn(2, N, 4, dtype=torch.float64)
    views = torch.nn.functional.normalize(torch.cat([one, other]), dim=1).numpy()
    total = 0.0
    for i in range(2 * N):
        scores = [float(views[i] @ views[k]) / TAU for k in range(2 * N) if k != i]
        total += logsumexp(scores) - float(views[i] @ views[(i + N) % (2 * N)]) / TAU
    assert nt_xent(one, other, TAU).item() == pytest.approx(total / (2 * N), rel=1e-12)


def test_symmetries() -> None:
    """Swapped views, another order, a rotation and other lengths change nothing."""
    torch.manual_seed(0)
    one, other = torch.randn(2, N, 4, dtype=torch.float64)
    wanted = nt_xent(one, other, TAU)
    order = torch.randperm(N)
    rotation = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64)).Q
    lengths = torch.rand(N, 1, dtype=torch.float64) + 0.1
    for changed in (
        (other, one),
        (one[order], other[order]),
        (one @ rotation, other @ rotation),
        (lengths * one, other),
    ):
        torch.testing.assert_close(nt_xent(*changed, TAU), wanted)
