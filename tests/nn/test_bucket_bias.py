"""Buckets of distances are those of Hugging Face's T5, and the bias of a pair depends on its distance alone."""

from __future__ import annotations

import pytest
import torch

from deepcanon.core import UsageError
from deepcanon.nn.bucket_bias import BucketBias


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("buckets", "reach"), [(32, 128), (8, 20), (4, 3)])
def test_buckets_are_those_of_hugging_face(causal: bool, buckets: int, reach: int) -> None:
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5", reason="needs transformers, of deepcanon[oracles]")
    distance = torch.arange(-300, 301)
    wanted = t5.T5Attention._relative_position_bucket(
        distance, bidirectional=not causal, num_buckets=buckets, max_distance=reach
    )
    assert torch.equal(BucketBias(2, buckets, reach, causal).bucket(distance), wanted)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (5, 9), (40, 40), (1, 50), (9, 5)])
def test_the_bias_is_that_of_each_distance(causal: bool, queries: int, keys: int) -> None:
    layer = BucketBias(3, buckets=8, reach=16, causal=causal).double()
    torch.nn.init.normal_(layer.table)
    distance = torch.arange(keys) - torch.arange(keys - queries, keys).unsqueeze(1)
    wanted = layer.table[:, layer.bucket(distance)]
    assert torch.equal(layer(queries, keys), wanted)
    weights = torch.randn(3, queries, keys, dtype=torch.float64)
    (found,) = torch.autograd.grad((layer(queries, keys) * weights).sum(), layer.table)
    (expected,) = torch.autograd.grad((wanted * weights).sum(), layer.table)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-13)


def test_sizes_that_make_no_sense_are_refused() -> None:
    for buckets, reach in ((5, 128), (8, 4)):
        with pytest.raises(UsageError, match="buckets are an even number"):
            BucketBias(2, buckets, reach)
    with pytest.raises(UsageError, match="buckets must be at least 4"):
        BucketBias(2, buckets=2)
