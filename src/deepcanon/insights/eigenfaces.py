"""Eigenfaces: the principal components of images, shown as images."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.figure import Figure
from scipy.linalg import subspace_angles
from torch import Tensor, nn

from deepcanon.core import AnyBatch, DataError, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.modes import eval_mode
from deepcanon.core.plural import counted
from deepcanon.insights._engines.layers import images_of
from deepcanon.pictures.images import rows

NOISE = 1e-5
"""A singular value below this fraction of the largest is rounding."""


@dataclass(frozen=True)
class Components:
    """The principal components of examples: their mean, the directions as rows, and the variances along them."""

    mean: Tensor
    directions: Tensor
    variances: Tensor
    total: float


def principal(x: Tensor, count: int) -> Components:
    """The first principal components of examples, (B, features), in double precision; fewer where the rank is lower.

    >>> principal(torch.tensor([[1.0, 0.0], [3.0, 0.0]]), 2).directions.abs()
    tensor([[1., 0.]], dtype=torch.float64)
    """
    x = x.double()
    mean = x.mean(0)
    _, scale, directions = torch.linalg.svd(x - mean, full_matrices=False)
    kept = int((scale[:count] > NOISE * scale[0]).sum())
    variances = scale.square() / len(x)
    return Components(mean, directions[:kept], variances[:kept], float(variances.sum()))


def angles(left: Tensor, right: Tensor) -> list[float]:
    """The principal angles between the spaces that two sets of rows span, in degrees, the largest first."""
    return [math.degrees(angle) for angle in subspace_angles(left.numpy().T, right.numpy().T)]


def eigenfaces(model: nn.Module, batch: AnyBatch, *, components: int = 8) -> Finding:
    r"""The principal components of images (eigenfaces), compared with those of a model's reconstructions of them.

    .. math:: \frac1N \sum_n (x_n - \bar x)(x_n - \bar x)^\top u_k = \lambda_k u_k, \qquad
              \cos \theta_k = \sigma_k(U^\top V)

    The columns of U are the components of the images, those of V the components of their reconstructions. Where all
    principal angles are zero the two span one space. For a linear autoencoder at its optimum, on its training data,
    they are: the data must be centered, or the model have biases, which do the centering.

    References:
        | Eigenfaces for Recognition (Turk and Pentland, 1991), https://doi.org/10.1162/jocn.1991.3.1.71
        | Neural networks and principal component analysis: Learning from examples without local minima (Baldi and
          Hornik, 1989), https://doi.org/10.1016/0893-6080(89)90014-2

    Arguments:
        model: A model that reconstructs images: by ``reconstruct``, or else by ``forward``.
        batch: Images.
        components: How many components to compare.
    """
    at_least(1, components=components)
    x = images_of(batch)
    with eval_mode(model):
        rebuilt: Any = getattr(model, "reconstruct", model)(x)
    if not isinstance(rebuilt, Tensor) or rebuilt.numel() != x.numel():
        raise UsageError(
            "this is for models that reconstruct their input, such as autoencoder; the output is not an image"
        )
    data, theirs = (principal(images.detach().cpu().flatten(1), components) for images in (x, rebuilt))
    count = min(len(data.directions), len(theirs.directions))
    if count == 0:
        raise DataError("all images, or all reconstructions, are the same; there is no direction in which they vary")
    signs = (data.directions[:count] * theirs.directions[:count]).sum(1, keepdim=True).sign()
    numbers: dict[str, Any] = {
        "images": len(x),
        "components": count,
        "angles_degrees": angles(data.directions[:count], theirs.directions[:count]),
        "variance_shares": [float(each) / data.total for each in data.variances[:count]],
        "variance_shares_rebuilt": [float(each) / data.total for each in theirs.variances[:count]],
        "mean": data.mean.tolist(),
        "mean_rebuilt": theirs.mean.tolist(),
        "eigenfaces": data.directions[:count].tolist(),
        "eigenfaces_rebuilt": (signs * theirs.directions[:count]).tolist(),
    }
    held, held_rebuilt, widest = (
        sum(numbers["variance_shares"]), sum(numbers["variance_shares_rebuilt"]), numbers["angles_degrees"][0],
    )  # fmt: skip
    says = (
        f"{counted(count, 'component')} hold {held:.1%} of the variance of {counted(len(x), 'image')}; along those of "
        f"the reconstructions there are {held_rebuilt:.1%}.",
        f"The largest angle between the two spaces is {widest:.3g} degrees, the smallest "
        f"{numbers['angles_degrees'][-1]:.3g}; zero would be PCA.",
    )
    return Finding(numbers, _figure(numbers, x[0].detach().cpu(), x.shape[1:]), says)


def _figure(numbers: dict[str, Any], example: Tensor, shape: torch.Size) -> Figure:
    mean, rebuilt_mean = (torch.tensor(numbers[name]).double() for name in ("mean", "mean_rebuilt"))
    faces, rebuilt = (torch.tensor(numbers[name]).double() for name in ("eigenfaces", "eigenfaces_rebuilt"))
    weights = faces @ (example.double().flatten() - mean)
    sums = mean + torch.cat([torch.zeros(1, len(mean)), (weights.unsqueeze(1) * faces).cumsum(0)])
    low, high = example.aminmax()

    def shown(images: Tensor) -> Tensor:
        return ((images - low) / (high - low).clamp_min(1e-12)).clamp(0, 1)

    gallery = {
        "data": torch.cat([shown(mean).unsqueeze(0), _stretched(faces)]),
        "reconstructions": torch.cat([shown(rebuilt_mean).unsqueeze(0), _stretched(rebuilt)]),
        "summed up": shown(sums),
    }
    captions = ["mean", *(f"{k}: {share:.1%}" for k, share in enumerate(numbers["variance_shares"], start=1))]
    widest, narrowest = max(numbers["angles_degrees"]), min(numbers["angles_degrees"])
    angles = f"angles from {narrowest:.3g}° to {widest:.3g}°"
    title = f"{counted(len(faces), 'eigenface')} of the data and of reconstructions: {angles}"
    return rows(gallery, shape, len(captions), captions=captions, title=title)


def _stretched(faces: Tensor) -> Tensor:
    """Each direction stretched to its own largest value; zero is mid-gray."""
    return 0.5 + 0.5 * faces / faces.abs().amax(1, keepdim=True)
