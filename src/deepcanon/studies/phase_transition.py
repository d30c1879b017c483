"""Phase transition: energy, magnetization and heat capacity of the Ising model by its temperature."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from deepcanon.core import Model, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.pictures.style import INK, MUTED, PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded

CRITICAL = 2 / math.log(1 + math.sqrt(2))
"""The temperature of the transition of an infinite lattice, in units of the coupling (Onsager, 1944)."""
LINE = 161
"""In how many points the line of an infinite lattice is drawn."""
QUANTITIES = {"energy": "energy per spin", "magnetization": "magnetization per spin", "heat_capacity": "heat capacity"}


def phase_transition(
    ising: type[Model[Any]],
    *,
    sides: tuple[int, ...] = (8, 32),
    coldest: float = 1.6,
    hottest: float = 3.2,
    temperatures: int = 9,
    lattices: int = 16,
    sweeps: int = 300,
    seed: int = 0,
) -> Finding:
    r"""Energy, magnetization and heat capacity of the Ising model by its temperature, sampled and exact.

    Square lattices of spins with unit couplings, without a field and with periodic borders, are drawn by checkerboard
    sweeps and cluster flips. Where the transfer matrix can be written out, energy and heat capacity follow from
    :math:`\log Z` at the inverse temperature :math:`\beta = 1 / T`,

    .. math:: u = -\frac1N \frac{d \log Z}{d \beta}, \qquad c = \frac{\beta^2}{N} \frac{d^2 \log Z}{d \beta^2}

    The energy of an infinite lattice is Onsager's, with the complete elliptic integral K, and its magnetization below
    the transition at :math:`T_c = 2 / \log(1 + \sqrt 2)` is Yang's. Small lattices round off both.

    .. math:: u = -\coth 2 \beta \Bigl(1 + \frac2\pi (2 \tanh^2 2 \beta - 1) \, K\Bigl(
              \frac{2 \sinh 2 \beta}{\cosh^2 2 \beta}\Bigr)\Bigr), \qquad
              m = (1 - \sinh^{-4} 2 \beta)^{1/8}

    References:
        | Crystal Statistics I (Onsager, 1944), https://doi.org/10.1103/PhysRev.65.117
        | The Spontaneous Magnetization of a Two-Dimensional Ising Model (Yang, 1952),
          https://doi.org/10.1103/PhysRev.85.808

    Arguments:
        ising: The Ising model.
        sides: The sides of the square lattices, which are even.
        coldest: The lowest temperature, in units of the coupling.
        hottest: The highest one.
        temperatures: How many there are from one to the other.
        lattices: How many lattices are drawn side by side.
        sweeps: The sweeps of each; the first half is burn-in.
        seed: The seed of the chains.
    """
    at_least(2, temperatures=temperatures)
    if not 0 < coldest < hottest:
        raise UsageError(f"temperatures go from coldest to hottest, both above 0 (got {coldest:g} to {hottest:g})")
    places, fine = (
        torch.linspace(coldest, hottest, count, dtype=torch.float64).tolist() for count in (temperatures, LINE)
    )
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for side in sides:
        model: Any = ising(height=side, width=side)
        drawn = [model.thermodynamics(t, lattices=lattices, sweeps=sweeps, generator=generator) for t in places]
        found[f"{side}x{side}"] = {
            "sampled": {name: [float(getattr(each, name)) for each in drawn] for name in QUANTITIES},
            "exact": exact(model, places) if model.enumerable else None,
        }
    numbers = {
        "settings": f"{temperatures} temperatures from {coldest:g} to {hottest:g}; for the sides "
        f"{', '.join(map(str, sides))}, {lattices} lattices of {sweeps} sweeps, half of them burn-in; "
        f"seed {seed}",
        "temperatures": places,
        "lattices": found,
        "infinite": {
            "temperatures": fine,
            "energy": [onsager_energy(t) for t in fine],
            "magnetization": [yang_magnetization(t) for t in fine],
            "heat_capacity": [(onsager_energy(t + 1e-4) - onsager_energy(t - 1e-4)) / 2e-4 for t in fine],
        },
    }
    return concluded(numbers, sentences, draw)


def exact(model: Any, temperatures: list[float]) -> dict[str, list[float]]:
    """Energy and heat capacity per spin by the derivatives of the exact log partition function."""
    model, count = model.double(), model.height * model.width
    energies, heats = [], []
    for temperature in temperatures:
        with torch.no_grad():
            model.coupling.fill_(1 / temperature)
        log_z: Tensor = model.exact_log_partition()
        (slope,) = torch.autograd.grad(log_z, model.coupling, create_graph=True)
        (curvature,) = torch.autograd.grad(slope, model.coupling)
        energies.append(-slope.item() / count)
        heats.append(curvature.item() / count / temperature**2)
    return {"energy": energies, "heat_capacity": heats}


def onsager_energy(temperature: float) -> float:
    """The energy per spin of an infinite lattice.

    >>> round(onsager_energy(2.0), 4)
    -1.7456
    """
    twice = 2 / temperature
    modulus = 2 * math.sinh(twice) / math.cosh(twice) ** 2
    integral = math.pi / 2 / _arithmetic_geometric_mean(1.0, math.sqrt(max(0.0, 1 - modulus**2)))
    return -(1 + 2 / math.pi * (2 * math.tanh(twice) ** 2 - 1) * integral) / math.tanh(twice)


def yang_magnetization(temperature: float) -> float:
    """The magnetization per spin of an infinite lattice, 0 above the transition.

    >>> round(yang_magnetization(2.0), 4), yang_magnetization(3.0)
    (0.9113, 0.0)
    """
    return (1 - math.sinh(2 / temperature) ** -4) ** 0.125 if temperature < CRITICAL else 0.0


def _arithmetic_geometric_mean(a: float, b: float) -> float:
    """What the arithmetic and the geometric mean of two numbers, taken again and again, come to."""
    for _ in range(60):
        a, b = (a + b) / 2, math.sqrt(a * b)
    return a


def draw(numbers: Mapping[str, Any]) -> Figure:
    """The three quantities by the temperature: dots are sampled, lines exact."""
    figure = new_figure(13.2, 4.4)
    for axes, (name, label) in zip(figure.subplots(1, 3), QUANTITIES.items(), strict=True):
        axes.axvline(CRITICAL, color=MUTED, linewidth=1, linestyle=":")
        for (size, both), color in zip(numbers["lattices"].items(), PALETTE, strict=False):
            if both["exact"] is not None and name in both["exact"]:
                axes.plot(
                    numbers["temperatures"], both["exact"][name], color=color, linewidth=1, label=f"{size}, exact"
                )
            axes.plot(numbers["temperatures"], both["sampled"][name], "o", color=color, markersize=5, label=size)
        line = numbers["infinite"]
        axes.plot(line["temperatures"], line[name], "--", color=INK, linewidth=1, label="infinite lattice")
        dress(axes, label.capitalize(), "temperature", label)
        legend(axes)
    return figure


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """Where the heat capacity peaks, how far samples are from exact sums, and from the infinite lattice in the cold."""
    places, cold = numbers["temperatures"], numbers["temperatures"][0]
    *_, (largest, both) = numbers["lattices"].items()
    heats = both["sampled"]["heat_capacity"]
    peak = places[heats.index(max(heats))]
    says = [
        f"The heat capacity of {largest} spins is largest at a temperature of {peak:.3g}, next to the transition of an "
        f"infinite lattice at {CRITICAL:.3f}."
    ]
    for size, each in numbers["lattices"].items():
        if each["exact"] is not None:
            pairs = zip(each["sampled"]["energy"], each["exact"]["energy"], strict=True)
            gap = max(abs(sampled - wanted) for sampled, wanted in pairs)
            says.append(f"Sampled energies of {size} spins are within {gap:.2g} of the exact ones.")
    says.append(
        f"At a temperature of {cold:.3g} the energy of {largest} spins is {both['sampled']['energy'][0]:.4f} (Onsager "
        f"{numbers['infinite']['energy'][0]:.4f}), their magnetization {both['sampled']['magnetization'][0]:.4f} (Yang "
        f"{numbers['infinite']['magnetization'][0]:.4f})."
    )
    return tuple(says)
