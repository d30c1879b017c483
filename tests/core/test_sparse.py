"""Sparse products and their gradients are those of dense matrices, and of scipy."""

import copy

import pytest
import scipy.sparse
import torch
from torch import Tensor

from deepcanon.core import DataError, Sparse


def matrix(rows: int, columns: int, share: float = 0.3, dtype: torch.dtype = torch.float64) -> Tensor:
    random = torch.Generator().manual_seed(rows)
    kept = torch.rand(rows, columns, generator=random) < share
    return torch.where(kept, torch.randn(rows, columns, generator=random, dtype=dtype), 0.0)


@pytest.mark.parametrize("shape", [(7, 5), (1, 4), (4, 1), (0, 3), (3, 0)], ids=str)
def test_a_product_is_that_of_the_dense_matrix(shape: tuple[int, int]) -> None:
    dense = matrix(*shape)
    sparse = Sparse.of(dense)
    x = torch.randn(shape[1], 3, dtype=torch.float64)
    assert torch.equal(sparse.to_dense(), dense)
    assert torch.allclose(sparse @ x, dense @ x, rtol=0, atol=1e-14)
    assert torch.allclose(sparse @ x[:, 0], dense @ x[:, 0], rtol=0, atol=1e-14)
    assert torch.equal(sparse.T.to_dense(), dense.T)


def test_it_equals_scipys_in_single_precision_beyond_fifty_thousand_rows() -> None:
    random = scipy.sparse.random_array((60_000, 50_000), density=2e-5, rng=0, dtype="float32").tocoo()
    rows, columns = (torch.from_numpy(index.astype("int64")) for index in random.coords)
    sparse = Sparse.from_entries(rows, columns, torch.from_numpy(random.data), (60_000, 50_000))
    x = torch.randn(50_000, 5, requires_grad=True)
    product = sparse @ x
    torch.testing.assert_close(product.detach(), torch.from_numpy(random @ x.detach().numpy()))
    pull = torch.randn_like(product)
    product.backward(pull)
    torch.testing.assert_close(x.grad, torch.from_numpy(random.T @ pull.numpy()))


def test_gradients_of_first_and_second_order_are_slopes() -> None:
    sparse = Sparse.of(matrix(6, 4))
    values = sparse.values.clone().requires_grad_()
    x = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)

    def product(values: Tensor, x: Tensor) -> Tensor:
        return (sparse.with_values(values) @ x).square()

    assert torch.autograd.gradcheck(product, (values, x))
    assert torch.autograd.gradgradcheck(product, (values, x))


def test_a_gradient_that_is_one_number_spread_out_is_multiplied_rightly() -> None:
    dense = matrix(6, 4)
    x = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    (Sparse.of(dense) @ x).sum().backward()
    torch.testing.assert_close(x.grad, dense.T @ torch.ones(6, 2, dtype=torch.float64))


def test_entries_of_one_row_and_column_add_up() -> None:
    place = torch.zeros(3, dtype=torch.long)
    sparse = Sparse.from_entries(place, place, torch.tensor([1.0, 2.0, 4.0]), (2, 2))
    assert sparse.to_dense().tolist() == [[7.0, 0.0], [0.0, 0.0]]
    assert (sparse @ torch.ones(2)).tolist() == [7.0, 0.0]


def test_what_is_symmetric_is_its_own_transpose_and_nothing_else() -> None:
    dense = matrix(5, 5)
    symmetric = Sparse.of(dense + dense.T)
    assert symmetric.T is symmetric
    skew = Sparse.of(dense - dense.T)
    assert skew.pattern.turned[0] is skew.pattern
    assert torch.equal(skew.T.to_dense(), dense.T - dense)
    assert torch.equal(Sparse.of(dense).T.to_dense(), dense.T)


def test_other_values_share_the_sorting() -> None:
    sparse = Sparse.of(matrix(5, 4))
    double = sparse.with_values(2 * sparse.values)
    assert double.T.pattern is sparse.T.pattern
    assert sparse.to(torch.float32).pattern is sparse.pattern
    assert sparse.to("cpu") is sparse
    assert torch.equal(double.to_dense(), 2 * sparse.to_dense())


def test_nan_stays_in_the_rows_that_meet_it() -> None:
    dense = torch.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [0.0, 0.0, 0.0]])
    x = torch.tensor([[1.0], [1.0], [float("nan")]])
    product = (Sparse.of(dense) @ x).flatten()
    assert product.isnan().tolist() == [True, False, False]
    assert product[1:].tolist() == [3.0, 0.0]


def test_sparse_tensors_of_torch_are_taken_as_they_are() -> None:
    dense = matrix(6, 4, dtype=torch.float32)
    assert torch.equal(Sparse.of(dense.to_sparse_coo()).to_dense(), dense)
    assert torch.equal(copy.deepcopy(Sparse.of(dense)).to_dense(), dense)
    half = (Sparse.of(dense) @ torch.ones(4, 2, dtype=torch.bfloat16)).dtype
    assert half == torch.float32


def test_it_runs_where_tensors_have_no_values() -> None:
    sparse = Sparse.of(matrix(6, 4)).to("meta")
    x = torch.zeros(4, 3, device="meta", requires_grad=True)
    product = sparse @ x
    product.sum().backward()
    assert product.shape == (6, 3)
    assert x.grad is not None
    assert x.grad.is_meta


def test_wrong_shapes_are_named() -> None:
    with pytest.raises(DataError, match=r"6 rows and 4 columns cannot be multiplied by the shape \(5, 2\)"):
        Sparse.of(matrix(6, 4)) @ torch.zeros(5, 2)
    with pytest.raises(DataError, match=r"rows and columns, got the shape \(3,\)"):
        Sparse.of(torch.zeros(3))


def test_blocks_of_a_block_diagonal_matrix() -> None:
    parts = [matrix(3, 3), matrix(1, 1, 1.0), matrix(4, 4), torch.zeros(2, 2, dtype=torch.float64)]
    sizes, starts = torch.tensor([3, 1, 4, 2]), torch.tensor([0, 3, 4, 8])
    for blocks in (parts, [part + part.T for part in parts]):
        whole = Sparse.of(torch.block_diag(*blocks))
        for chosen in ([2, 0], [3], [1, 1, 3, 2]):
            index = torch.tensor(chosen)
            found = whole.blocks(starts[index], sizes[index])
            wanted = Sparse.of(torch.block_diag(*(blocks[i] for i in chosen)))
            assert torch.equal(found.to_dense(), wanted.to_dense())
            assert torch.equal(found.T.to_dense(), wanted.to_dense().T)
            assert found.pattern.starts.dtype == found.pattern.columns.dtype == torch.int32
