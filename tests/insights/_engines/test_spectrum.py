"""Eigenvalues found by Lanczos are those of a dense matrix, each within its residual."""

import pytest
import torch
from torch import Generator, Tensor

from deepcanon.core import UsageError
from deepcanon.insights._engines.spectrum import hessian_product, lanczos


def symmetric(size: int, seed: int = 0) -> Tensor:
    draw = torch.randn(size, size, generator=Generator().manual_seed(seed), dtype=torch.float64)
    return draw + draw.T


@pytest.mark.parametrize("size", [1, 2, 7, 20])
def test_the_whole_spectrum_comes_out_of_as_many_products_as_there_are_dimensions(size: int) -> None:
    matrix = symmetric(size)
    spectrum = lanczos(lambda v: matrix @ v, size, steps=100)
    torch.testing.assert_close(torch.tensor(spectrum.values).double(), torch.linalg.eigvalsh(matrix))
    assert sum(spectrum.weights) == pytest.approx(1)
    top = spectrum.vector(-1)
    torch.testing.assert_close(matrix @ top, spectrum.high * top)


def test_an_eigenvalue_of_the_matrix_lies_within_each_residual() -> None:
    matrix = symmetric(200, seed=1)
    true = torch.linalg.eigvalsh(matrix)
    spectrum = lanczos(lambda v: matrix @ v, 200, steps=25)
    assert len(spectrum.values) == 25
    for value, residual in zip(spectrum.values, spectrum.residuals, strict=True):
        assert float((true - value).abs().min()) <= residual * (1 + 1e-9)
    for place in (0, 12, -1):
        vector = spectrum.vector(place)
        gap = float((matrix @ vector - spectrum.values[place] * vector).norm())
        assert gap == pytest.approx(spectrum.residuals[place], rel=1e-6)


def test_the_iteration_stops_where_nothing_new_comes() -> None:
    """Two different eigenvalues: two products are enough, however large the matrix is."""
    diagonal = torch.tensor([1.0] * 50 + [3.0] * 50, dtype=torch.float64)
    spectrum = lanczos(lambda v: diagonal * v, 100)
    assert spectrum.values == pytest.approx([1, 3])


@pytest.mark.parametrize(
    ("values", "shape"),
    [([1, 2, 3], "bowl"), ([0, 2, 3], "flat"), ([0, 0, 0], "flat"), ([-1, 2, 3], "saddle"), ([-3, -1, 0], "dome")],
)
def test_the_shape_is_named(values: list[float], shape: str) -> None:
    diagonal = torch.tensor(values, dtype=torch.float64)
    assert lanczos(lambda v: diagonal * v, 3).shape == shape


def test_products_are_those_of_the_dense_hessian() -> None:
    def function(x: Tensor) -> Tensor:
        return (x[0] * x[1].exp() + x[2].sin() * x[0] ** 2).square()

    point = torch.tensor([0.3, -0.7, 1.1], dtype=torch.float64)
    dense = torch.autograd.functional.hessian(function, point)
    product = hessian_product(function, point)
    torch.testing.assert_close(torch.stack([product(row) for row in torch.eye(3, dtype=torch.float64)]), dense)


def test_a_linear_function_has_no_curvature() -> None:
    product = hessian_product(lambda x: 3 * x.sum(), torch.zeros(4))
    assert product(torch.ones(4)).tolist() == [0, 0, 0, 0]


def test_a_hessian_that_is_not_finite_is_refused() -> None:
    with pytest.raises(UsageError, match="not finite"):
        lanczos(lambda v: v * torch.inf, 5)
