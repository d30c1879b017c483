"""A memory recalls exactly where theory says so, and attention without parameters descends the Hopfield energy."""

import pytest
import torch
from scipy.special import softmax

from deepcanon.core import UsageError
from deepcanon.nn.associative_memory import AssociativeMemory, parameter_free_attention
from deepcanon.nn.attention import attention

WORDS = ["The", "dog", "ate", "the", "cake"]


def test_hard_weights_make_a_table() -> None:
    memory = AssociativeMemory(5, how="hard")
    memory.write(torch.eye(5), torch.eye(5))
    for place, _ in enumerate(WORDS):
        assert int(memory(torch.eye(5)[place]).argmax()) == place
    assert memory(torch.eye(5).view(1, 5, 5)).shape == (1, 5, 5)


def test_linear_weights_of_orthonormal_keys_recall_exactly() -> None:
    torch.manual_seed(0)
    keys = torch.linalg.qr(torch.randn(4, 4, dtype=torch.double)).Q
    values, noise = torch.randn(4, 3, dtype=torch.double), torch.randn(2, 4, dtype=torch.double)
    memory = AssociativeMemory(4, 3, how="linear").double()
    memory.write(keys[:2], values[:2])
    memory.write(keys[2:], values[2:])
    torch.testing.assert_close(memory(keys), values)
    torch.testing.assert_close(memory(noise), noise @ (values.T @ keys).T)  # the correlation matrix of Kohonen


def test_soft_weights_are_attention() -> None:
    torch.manual_seed(0)
    keys, values, query = torch.randn(6, 4), torch.randn(6, 2), torch.randn(3, 4)
    for score, scale in (("dot", 1.0), ("scaled", None)):
        memory = AssociativeMemory(4, 2, score=score)  # type: ignore[arg-type]
        memory.write(keys, values)
        torch.testing.assert_close(memory(query), attention(query, keys, values, scale=scale))


def test_attention_without_parameters_is_the_closed_form() -> None:
    x = torch.randn(2, 7, 3, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    for rows, found in zip(x.numpy(), parameter_free_attention(x).numpy(), strict=True):
        assert abs(found - softmax(rows @ rows.T, axis=1) @ rows).max() < 1e-12


def test_it_is_a_step_down_the_energy_of_a_modern_hopfield_network() -> None:
    """The energy is -lse(X s) + |s|^2 / 2; one step of size 1 down its gradient is the update softmax(X s) X."""
    x = torch.randn(7, 3, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    state = x.clone().requires_grad_()
    energy = (-(state @ x.T).logsumexp(1) + state.square().sum(1) / 2).sum()
    (gradient,) = torch.autograd.grad(energy, state)
    torch.testing.assert_close(parameter_free_attention(x), x - gradient)


def test_an_empty_memory_and_other_widths_are_refused() -> None:
    memory = AssociativeMemory(3)
    with pytest.raises(UsageError, match="the memory is empty"):
        memory(torch.zeros(1, 3))
    with pytest.raises(UsageError, match="takes a value for each key"):
        memory.write(torch.zeros(2, 3), torch.zeros(1, 3))
    assert not memory.state_dict()
