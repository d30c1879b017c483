"""Output heads: layers that turn the outputs of a network into a distribution of the targets."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import torch.nn.functional as F
from torch import Tensor, distributions, nn
from torch.distributions import Distribution, Independent, Normal, constraints

from deepcanon.core import UsageError
from deepcanon.core.precision import full
from deepcanon.distributions.likelihoods import BernoulliLikelihood, GaussianLikelihood


@runtime_checkable
class Head(Protocol):
    """An output head: ``numbers`` outputs per target are the parameters of the distribution of a row of targets."""

    numbers: int

    def distribution(self, outputs: Tensor) -> Distribution: ...


class HeteroscedasticGaussian(nn.Module):
    r"""A Gaussian head with means and standard deviations both predicted: the uncertainty depends on the input.

    .. math:: y \sim N(\mu(x), \sigma(x)^2), \qquad \sigma = \sigma_0 + \log(1 + e^s)

    The standard deviation stays above :math:`\sigma_0` = ``SMALLEST``; else a target that is predicted exactly would
    have an infinite density.

    References:
        | Estimating the mean and variance of the target probability distribution (Nix and Weigend, 1994),
          https://doi.org/10.1109/ICNN.1994.374138
    """

    SMALLEST = 1e-3
    numbers = 2

    def distribution(self, outputs: Tensor) -> Distribution:
        mean, raw = full(outputs).chunk(2, dim=-1)
        return Independent(Normal(mean, self.SMALLEST + F.softplus(raw), validate_args=False), 1, validate_args=False)


class NamedHead(nn.Module):
    """A head for any univariate distribution of torch: each parameter is an output, mapped to its domain.

    A parameter that must be positive is the exponential of its output, one between 0 and 1 the sigmoid, and so on, as
    ``torch.distributions.transform_to`` has it; where there is a choice, the outputs are logits.

    Arguments:
        kind: The class of the distribution.

    >>> import torch
    >>> NamedHead(torch.distributions.Gumbel).distribution(torch.zeros(5, 4)).mean[0]  # location 0, scale 1
    tensor([0.5772, 0.5772])
    """

    def __init__(self, kind: type[Distribution]) -> None:
        super().__init__()
        self.kind = kind
        self.domains = _domains(kind)
        self.numbers = len(self.domains)

    def extra_repr(self) -> str:
        return f"{self.kind.__name__}: {', '.join(self.domains)}"

    def distribution(self, outputs: Tensor) -> Distribution:
        parts = full(outputs).chunk(self.numbers, dim=-1)
        values = {
            name: distributions.transform_to(domain)(part)
            for (name, domain), part in zip(self.domains.items(), parts, strict=True)
        }
        return Independent(self.kind(**values, validate_args=False), 1, validate_args=False)


def head_layer(name: str) -> GaussianLikelihood | BernoulliLikelihood | HeteroscedasticGaussian | NamedHead:
    """A new head: "gaussian" with one learned scale, "heteroscedastic", "bernoulli", or a name of torch.distributions.

    Several targets of a Bernoulli head are the labels of a multi-label problem, independent of each other.

    >>> head_layer("student_t")
    NamedHead(StudentT: df, loc, scale)
    """
    plain = name.lower().replace("_", "")
    if plain == "gaussian":
        return GaussianLikelihood()
    if plain == "heteroscedastic":
        return HeteroscedasticGaussian()
    if plain == "bernoulli":
        return BernoulliLikelihood()
    kinds = _kinds()
    if plain not in kinds:
        known = ", ".join(kind.__name__ for kind in kinds.values())
        raise UsageError(
            f"head must be gaussian, heteroscedastic, bernoulli or a univariate distribution of torch.distributions: "
            f"{known} (got {name!r})"
        )
    return NamedHead(kinds[plain])


def _kinds() -> dict[str, type[Distribution]]:
    """The univariate distributions with parameters that real outputs can be mapped to."""
    found = {}
    for name in distributions.__all__:
        kind = getattr(distributions, name)
        if isinstance(kind, type) and issubclass(kind, Distribution) and _suits(kind):
            found[name.lower()] = kind
    return found


def _suits(kind: type[Distribution]) -> bool:
    domains = _domains(kind)
    required = {
        name
        for name, parameter in inspect.signature(kind.__init__).parameters.items()
        if parameter.default is inspect.Parameter.empty and name != "self"
    }
    reachable = all(
        not constraints.is_dependent(domain) and not domain.is_discrete and domain.event_dim == 0
        for domain in domains.values()
    )
    if not domains or not required <= set(domains) or not reachable:
        return False
    return bool(kind.support.event_dim == 0)  # type: ignore[attr-defined]  # torch calls it a property of instances


def _domains(kind: type[Distribution]) -> Mapping[str, constraints.Constraint]:
    """The parameters of a distribution in the order of its constructor, with their domains."""
    domains: object = kind.arg_constraints
    if not isinstance(domains, dict):  # a distribution of distributions
        return {}
    names = [name for name in inspect.signature(kind.__init__).parameters if name in domains]
    if "probs" in names and "logits" in names:
        names.remove("probs")
    return {name: domains[name] for name in names}
