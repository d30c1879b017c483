"""Clusters of groups that are known, the index against its definition over pairs, and the claim on the digits."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
import torch

import deepcanon as dc
from deepcanon.core import UsageError
from deepcanon.studies.code_clusters import agreement, clustered, code_clusters, principal


def test_the_index_is_that_of_all_pairs() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randint(3, (20,), generator=generator).tolist() for _ in range(2))
    pairs = list(combinations(range(20), 2))
    together = sum(a[i] == a[j] and b[i] == b[j] for i, j in pairs)
    first, second = (sum(part[i] == part[j] for i, j in pairs) for part in (a, b))
    expected = first * second / comb(20, 2)
    wanted = (together - expected) / ((first + second) / 2 - expected)
    assert agreement(a, torch.tensor(b)) == pytest.approx(wanted, abs=1e-12)


def test_groups_that_lie_apart_are_found_and_new_rows_go_to_the_nearest() -> None:
    random = np.random.default_rng(0)
    corners = np.array([[0, 0, 0], [9, 0, 0], [0, 9, 0]], dtype=np.float32)
    rows = np.concatenate([corner + random.normal(size=(30, 3)).astype(np.float32) for corner in corners])
    classes = torch.arange(3).repeat_interleave(30)
    centers, clusters = clustered(rows, corners[[2, 0, 2]], 3, seed=0)
    assert centers.shape == (3, 3)
    assert clusters[0] == clusters[2] != clusters[1]
    assert agreement(clustered(rows, rows, 3, seed=0)[1], classes) == 1.0
    low, new = principal(rows, corners, 2)
    assert agreement(clustered(low, low, 3, seed=0)[1], classes) == 1.0
    assert new.shape == (3, 2)


@pytest.mark.slow
def test_the_codes_of_digits_cluster_by_their_classes() -> None:
    """Far above chance in each way; by which of them more, the study says with its intervals."""
    numbers = code_clusters(dc.find("autoencoder"), steps=400, seeds=2).numbers
    assert all(0.4 < value < 1 for way in ("pixels", "PCA", "code") for value in numbers["found"][way])
    assert len(numbers["centers"]) == 10


def test_what_cannot_be_clustered_is_refused() -> None:
    with pytest.raises(UsageError, match="classes of images; moons"):
        code_clusters(dc.find("autoencoder"), data="moons")
    with pytest.raises(UsageError, match="no more components than the 64 features"):
        code_clusters(dc.find("autoencoder"), latent=65)
