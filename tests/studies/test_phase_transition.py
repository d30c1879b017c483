"""The phase transition: closed forms against those of the literature, exact sums against the enumeration."""

from itertools import product

import pytest
import torch

import deepcanon as dc
from deepcanon.core import UsageError
from deepcanon.studies.phase_transition import CRITICAL, exact, onsager_energy, phase_transition, yang_magnetization
from tests import onsager


@pytest.mark.parametrize("temperature", [1.2, 1.9, 2.2, 2.4, 4.0])
def test_closed_forms_are_those_with_the_elliptic_integral_of_scipy(temperature: float) -> None:
    k = 1 / temperature
    assert onsager_energy(temperature) == pytest.approx(onsager.onsager_energy(k), rel=1e-10)
    expected = onsager.yang_magnetization(k) if temperature < CRITICAL else 0.0
    assert yang_magnetization(temperature) == pytest.approx(expected, rel=1e-10)


def test_exact_sums_are_those_of_all_lattices() -> None:
    spins = torch.tensor(list(product((-1.0, 1.0), repeat=16)), dtype=torch.float64).reshape(-1, 4, 4)
    energies = -(spins * (spins.roll(1, 1) + spins.roll(1, 2))).sum((1, 2))
    places = [1.7, 2.6]
    found = exact(dc.find("ising")(height=4, width=4), places)
    for place, energy, heat in zip(places, found["energy"], found["heat_capacity"], strict=True):
        p = (-energies / place).softmax(0)
        mean = (p * energies).sum()
        assert energy == pytest.approx(float(mean) / 16, rel=1e-9)
        assert heat == pytest.approx(float((p * (energies - mean).square()).sum()) / 16 / place**2, rel=1e-9)


@pytest.mark.slow
def test_samples_follow_the_exact_lines() -> None:
    numbers = phase_transition(dc.find("ising"), sides=(8,), temperatures=3, lattices=64, sweeps=200).numbers
    both = numbers["lattices"]["8x8"]
    assert both["sampled"]["energy"] == pytest.approx(both["exact"]["energy"], abs=0.03)
    assert both["sampled"]["heat_capacity"] == pytest.approx(both["exact"]["heat_capacity"], rel=0.15)


def test_temperatures_rise() -> None:
    with pytest.raises(UsageError, match="from coldest to hottest, both above 0"):
        phase_transition(dc.find("ising"), coldest=3, hottest=2)
