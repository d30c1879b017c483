"""The temperature of a form is read, and what is no temperature is refused; the lattices: tests/data/sets."""

import pytest

from deepcanon.core import UsageError
from deepcanon.data.transforms.at_temperature import read_form


def test_a_temperature_is_a_number_of_lattices() -> None:
    assert read_form("ising", "temperature=2") == 2.0
    for name, form in (("ising", "temperature=-1"), ("ising", "temperature=inf"), ("moons", "temperature=2")):
        with pytest.raises(UsageError, match="temperature"):
            read_form(name, form)
