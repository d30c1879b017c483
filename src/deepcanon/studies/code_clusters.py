"""Code clusters: k-means on the codes of an autoencoder, on principal components and on pixels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from deepcanon.core import Model, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.data import load_data
from deepcanon.pictures.images import draw_images
from deepcanon.pictures.style import PALETTE, dress, new_figure
from deepcanon.studies._helpers.concluded import concluded
from deepcanon.studies._helpers.contest import CERTAIN, interval
from deepcanon.studies._helpers.trained import trained

WAYS = ("pixels", "PCA", "code")
"""What is clustered: the examples themselves, their principal components, the codes of the autoencoder."""
TRIES = 10
"""From how many random centers k-means starts; the tightest clusters count."""

Rows = NDArray[np.float32]


def code_clusters(
    autoencoder: type[Model[Any]],
    *,
    data: str = "digits",
    latent: int = 10,
    hidden: int = 128,
    steps: int = 1500,
    seeds: int = 8,
    seed: int = 0,
) -> Finding:
    r"""Clusters found by k-means on the codes of an autoencoder, on principal components and on pixels.

    k-means looks for as many clusters as there are classes, on the training examples and without their labels. Test
    examples go to the nearest center. How well these clusters are the classes is the adjusted Rand index: over all
    pairs of examples, the share on which clusters and classes agree, less that of random clusters, scaled so that
    it is 1 if both are the same and 0 on average at random.

    .. math:: \mathrm{ARI} = \frac{\sum_{ij} \binom{n_{ij}}2 - E}{\frac12 (A + B) - E}, \quad
              A = \sum_i \binom{a_i}2, \; B = \sum_j \binom{b_j}2, \quad E = \frac{A B}{\binom n2}

    PCA keeps as many components as the code has values. Each seed trains an autoencoder and starts each k-means.

    References:
        | Reducing the Dimensionality of Data with Neural Networks (Hinton and Salakhutdinov, 2006),
          https://doi.org/10.1126/science.1127647
        | Comparing partitions (Hubert and Arabie, 1985), https://doi.org/10.1007/BF01908075

    Arguments:
        autoencoder: The autoencoder.
        data: The data set, of images with classes.
        latent: The number of values of a code, and of principal components.
        hidden: The width of the hidden layers of encoder and decoder.
        steps: The training steps of each autoencoder.
        seeds: From how many seeds all are repeated.
        seed: The first seed.
    """
    at_least(1, latent=latent, hidden=hidden, steps=steps)
    at_least(2, seeds=seeds)
    loaded = load_data(data)
    if loaded.kind != "images" or "classes" not in loaded.sizes:
        raise UsageError(f"clusters are compared with classes of images; {data} gives {loaded.train.noun}")
    train, test = loaded.train, loaded.split("test")
    count, x, held_out = loaded.sizes["classes"], _rows(train.x), _rows(test.x)
    if latent > x.shape[1]:
        raise UsageError(f"PCA has no more components than the {x.shape[1]} features of {data} (got latent={latent})")
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(seed, seed + seeds):
        model = trained(autoencoder, loaded, number, {"latent": latent, "hidden": (hidden,)}, steps=steps)
        views = {"pixels": (x, held_out), "PCA": principal(x, held_out, latent)}
        with torch.no_grad():
            views["code"] = _rows(model.encode(train.x)), _rows(model.encode(test.x))
        for way, (seen, new) in views.items():
            centers, clusters = clustered(seen, new, count, number)
            found[way].append(agreement(clusters, test.y))
    with torch.no_grad():
        shown = model.decode(torch.from_numpy(centers)).tolist()
    numbers = {
        "settings": (
            f"{data}; {counted(count, 'cluster')}, k-means with {counted(TRIES, 'start')}; autoencoders of "
            f"{counted(latent, 'latent')} and {counted(hidden, 'hidden unit')}, {counted(steps, 'step')} each; "
            f"{counted(seeds, 'seed')}, means with {CERTAIN}"
        ),
        "found": found,
        "latent": latent,
        "centers": [[round(value, 3) for value in row] for row in shown],
        "shape": list(loaded.shape),
    }
    return concluded(numbers, sentences, draw)


def principal(x: Rows, held_out: Rows, count: int) -> tuple[Rows, Rows]:
    """The first principal components of the training examples, and the test examples along them."""
    from sklearn.decomposition import PCA  # slow to import

    pca = PCA(count, svd_solver="full").fit(x)
    return pca.transform(x), pca.transform(held_out)


def clustered(x: Rows, held_out: Rows, count: int, seed: int) -> tuple[Rows, Rows]:
    """The centers of clusters of x, and the clusters of other rows, those of the nearest centers."""
    from sklearn.cluster import KMeans

    kmeans = KMeans(count, n_init=TRIES, random_state=seed).fit(x)
    return kmeans.cluster_centers_, kmeans.predict(held_out)


def agreement(clusters: Any, classes: Tensor) -> float:
    """The adjusted Rand index of two partitions.

    >>> agreement([0, 0, 1, 1], torch.tensor([5, 5, 2, 2])), agreement([0, 0, 0, 0], torch.tensor([5, 5, 2, 2]))
    (1.0, 0.0)
    """
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(classes.numpy(), clusters))


def _rows(x: Tensor) -> Rows:
    rows: Rows = x.flatten(1).float().numpy()
    return rows


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """The index of each way, and whether codes do better than the others, paired by seeds."""
    found = numbers["found"]
    shown = {way: "{:.3f} ± {:.3f}".format(*interval(found[way])) for way in WAYS}
    return (
        f"The clusters of k-means agree with the classes by an adjusted Rand index of {shown['code']} on codes, "
        f"{shown['PCA']} on {counted(numbers['latent'], 'principal component')}, and {shown['pixels']} on pixels.",
        *(_compared(found, other) for other in ("PCA", "pixels")),
    )


def _compared(found: Mapping[str, list[float]], other: str) -> str:
    gains = [a - b for a, b in zip(found["code"], found[other], strict=True)]
    mean, width = interval(gains)
    if abs(mean) <= width:
        return f"Codes and {other} cannot be told apart: {mean:+.3f} ± {width:.3f}, pair by pair of one seed."
    word = "more" if mean > 0 else "less"
    better = sum(gain > 0 for gain in gains)
    return (
        f"On codes it is {word} than on {other}, by {abs(mean):.3f} ± {width:.3f}, pair by pair of one seed; "
        f"higher with {better} of {counted(len(gains), 'seed')}."
    )


def draw(numbers: Mapping[str, Any]) -> Figure:
    """The index of each way, seed by seed, and the decoded centers of the last seed."""
    figure = new_figure(11.5, 4.2)
    left, right = figure.subplots(1, 2, width_ratios=(1.1, 1))
    found = numbers["found"]
    for values in zip(*(found[way] for way in WAYS), strict=True):
        left.plot(range(len(WAYS)), values, color=PALETTE[0], alpha=0.25, linewidth=1)
    for place, way in enumerate(WAYS):
        left.plot([place] * len(found[way]), found[way], "o", color=PALETTE[place], alpha=0.8, markersize=6)
    left.set_xticks(range(len(WAYS)), ["pixels", f"{numbers['latent']} components", "codes"])
    left.set_xlim(-0.4, len(WAYS) - 0.6)
    dress(left, "Each line is a seed", "", "adjusted Rand index")
    centers = torch.tensor(numbers["centers"]).clamp(0, 1)
    draw_images(right, centers, numbers["shape"], (len(centers) + 1) // 2)
    dress(right, "The centers of the codes, decoded, of the last seed", grid=False)
    right.set_xticks([])
    right.set_yticks([])
    return figure
