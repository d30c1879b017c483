"""What is known exactly of the Ising model on a square lattice without a field, at the coupling K = J / T."""

import numpy as np
from scipy.special import ellipk


def kaufman_log_partition(side: int, k: float) -> float:
    """The log partition function of a torus of side x side spins (Kaufman, 1949, equation 49; the side even)."""
    gammas = [2 * k + np.log(np.tanh(k))]  # of either sign: the other ones are positive
    gammas += [
        np.arccosh(np.cosh(2 * k) / np.tanh(2 * k) - np.cos(np.pi * index / side)) for index in range(1, 2 * side)
    ]
    odd, even = side * np.array(gammas[1::2]) / 2, side * np.array(gammas[::2]) / 2
    total = sum(np.prod(2 * of(half)) for half in (odd, even) for of in (np.cosh, np.sinh))
    return float(np.log(total / 2) + side**2 / 2 * np.log(2 * np.sinh(2 * k)))


def kaufman_bonds(side: int, k: float, step: float = 1e-5) -> float:
    """The mean sum of the bonds per spin of a torus: the derivative of its log partition function by K."""
    rise = kaufman_log_partition(side, k + step) - kaufman_log_partition(side, k - step)
    return rise / (2 * step) / side**2


def onsager_energy(k: float) -> float:
    """The energy per spin of an infinite lattice, in units of the coupling (Onsager, 1944)."""
    modulus = 2 * np.sinh(2 * k) / np.cosh(2 * k) ** 2
    return float(-(1 + 2 / np.pi * (2 * np.tanh(2 * k) ** 2 - 1) * ellipk(modulus**2)) / np.tanh(2 * k))


def yang_magnetization(k: float) -> float:
    """The spontaneous magnetization per spin of an infinite lattice below the critical temperature (Yang, 1952)."""
    return float((1 - np.sinh(2 * k) ** -4) ** 0.125)
