"""The lattices are drawn with the probabilities of the Ising model, at the temperature that is asked for."""

from typing import Any

import numpy as np
import pytest

from deepcanon.core import UsageError
from deepcanon.data import load_data
from deepcanon.data.sets.lattices import draw_lattices
from tests.onsager import kaufman_bonds


def bond_energy(lattices: Any) -> Any:
    """The mean product of neighbors in each lattice."""
    s = 2 * lattices[:, 0] - 1
    return (s * (np.roll(s, 1, 1) + np.roll(s, 1, 2))).mean((1, 2))


@pytest.mark.parametrize("temperature", [2.0, 2.5, 4.0])
def test_the_mean_energy_is_that_of_the_sum_over_all_lattices(temperature: float) -> None:
    found = bond_energy(draw_lattices(3000, temperature, seed=1))
    gap = found.mean() - kaufman_bonds(8, 1 / temperature)
    assert abs(gap) < 4 * found.std() / np.sqrt(len(found))


def test_each_temperature_is_a_form() -> None:
    cold, plain, hot = (load_data(f"ising{form}") for form in (":temperature=1.5", "", ":temperature=5:spins"))
    energies = [bond_energy((data.train.x.numpy() > 0).astype(float)).mean() for data in (cold, plain, hot)]
    assert energies[0] > 1.9 > energies[1] > 1 > energies[2]
    assert cold.preprocessing["form"] == "temperature=1.5"
    assert cold.source.endswith("at the temperature 1.5")
    assert plain.source.endswith("at the temperature 2.5")
    assert hot.name == "ising:temperature=5:spins"
    assert len(plain.train) == len(cold.train) == 1000


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ising:temperature=cold", "a number from 0.1 on"),
        ("ising:temperature=0", "a number from 0.1 on"),
        ("digits:temperature=2", "a temperature is a form of ising"),
        ("ising:spins:temperature=2", "comes first"),
    ],
)
def test_no_other_temperature_is_taken(name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        load_data(name)
