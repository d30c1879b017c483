"""The laws of the interface: methods and their shapes, random numbers by the generator, examples kept apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, get_args

import torch
from torch import Tensor
from torch.distributions import Distribution
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from deepcanon.core import Batch, Graph, Labeled, LikelihoodKind, Support, conditioned
from deepcanon.laws.outcome import Measured, law, violations
from deepcanon.laws.play import train_briefly
from deepcanon.laws.probe import distance, draws, is_certain, log_prob_of, maps, precise, same, seeded, tensors_of

NO_META_KERNEL = frozenset({"aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero", "aten::equal"})
"""Operations that depend on the values of tensors, which tensors on the meta device do not have."""

ANY_DEVICE = frozenset({"aten::copy_", "aten::index", "aten::index_put_", "aten::_index_put_impl_"})
"""Operations whose further arguments may live on the CPU."""


@law
def methods_have_their_shapes(model: Any, batch: Batch) -> Measured | None:
    """Each method gives what its signature says: rows for rows, one number per example, whole numbers for classes."""
    plain, model = model, conditioned(model.eval(), batch)
    rows, size = len(batch.x), batch.x.shape[1:].numel()
    asked: list[str] = []
    faults: list[str] = []

    def expect(name: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
        asked.append(name)
        if shape != wanted:
            faults.append(f"{name} gives {shape} where {wanted} is expected")

    with torch.no_grad():
        if hasattr(model, "predict") and isinstance(batch, Labeled):
            _expect_predictions(model.predict, batch, expect, faults)
        if hasattr(model, "sample"):
            for count in (5, 0):
                drawn = conditioned(plain, batch, count).sample(count)
                if isinstance(batch.modeled, Graph):
                    expect(f"sample({count})", (len(drawn.parts),), (count,))
                else:
                    expect(f"sample({count})", (len(drawn), drawn.shape[1:].numel()), (count, size))
        if hasattr(model, "log_prob"):
            expect("log_prob", tuple(log_prob_of(model, batch).shape), (len(batch),))
        if hasattr(model, "energy"):
            expect("energy", tuple(model.energy(batch.x).shape), (rows,))
        for method in ("score", "reconstruct"):
            if hasattr(model, method):
                expect(method, tuple(getattr(model, method)(batch.x).flatten(1).shape), (rows, size))
        if hasattr(model, "encode"):
            code = model.encode(batch.x)
            for part in code if isinstance(code, tuple) else (_mean(code),):
                expect("encode", (len(part),), (rows,))
            if hasattr(model, "decode"):
                expect("decode", tuple(_mean(model.decode(_mean(code))).flatten(1).shape), (rows, size))
    if hasattr(model, "log_prob") and getattr(model, "likelihood_kind", None) not in get_args(LikelihoodKind):
        faults.append(f"log_prob needs a likelihood_kind, one of {', '.join(get_args(LikelihoodKind))}")
    if model.support not in get_args(Support):
        faults.append(f"support is {model.support!r}, none of {', '.join(get_args(Support))}")
    return violations(faults, f"methods {', '.join(asked)}") if asked or faults else None


@law
def maps_are_deterministic(model: Any, batch: Batch) -> Measured | None:
    """In eval mode a map gives the same bits again, and neither uses nor moves the global generator."""
    train_briefly(model, batch)
    model.eval()
    faults = []
    for name, ask in maps(model).items():
        with torch.no_grad():
            torch.manual_seed(1)
            before, once = torch.get_rng_state(), ask(batch)
            moved = not torch.equal(before, torch.get_rng_state())
            torch.manual_seed(2)
            if not same(once, ask(batch)):
                faults.append(f"{name} gives other values the second time")
            elif moved:
                faults.append(f"{name} moves the global generator")
    return violations(faults, f"maps {', '.join(maps(model))}") if maps(model) else None


@law
def generator_is_honored(model: Any, batch: Batch) -> Measured | None:
    """Samples depend on the given generator alone: its seed repeats them, and the global generator is not used."""
    train_briefly(model, batch)
    model.eval()
    asked = draws(model, batch)
    if hasattr(model, "gallery"):
        asked["gallery"] = lambda generator: model.gallery(batch.x, generator=generator)
    faults = []
    for name, ask in asked.items():
        with torch.no_grad():
            torch.manual_seed(1)
            before, once = torch.get_rng_state(), ask(seeded(7))
            moved = not torch.equal(before, torch.get_rng_state())
            torch.manual_seed(2)
            if not same(once, ask(seeded(7))):
                faults.append(f"{name} gives other values with the same generator")
            elif moved:
                faults.append(f"{name} moves the global generator")
            if name == "sample" or (name == "predict sample" and not is_certain(model, batch)):
                going_on = seeded(7)
                if same(ask(going_on), ask(going_on)) or same(once, ask(seeded(8))):
                    faults.append(f"{name} gives the same values with another generator")
    return violations(faults, f"draws of {', '.join(asked)}") if asked else None


@law
def examples_do_not_mix(model: Any, batch: Batch) -> Measured | None:
    """In eval mode an example has the output that it has alone."""
    if len(batch) < 2:
        return None
    train_briefly(model, batch)
    model, batch, bound = precise(model, batch)
    worst, where = 0.0, ""
    with torch.no_grad():
        for name, ask in maps(model).items():
            together = tensors_of(ask(batch))
            for i in range(min(4, len(batch))):
                alone = tensors_of(ask(batch.select(torch.tensor([i]))))
                gap = distance([part[:1] for part in alone], [part[i : i + 1] for part in together])
                if not gap <= worst:
                    worst, where = gap, f"; the worst is {name} of example {i}"
    return (worst, bound, f"maps {', '.join(maps(model))}{where}") if maps(model) else None


@law
def works_on_the_meta_device(model: Any, batch: Batch) -> Measured:
    """Loss and methods run where tensors have no values, which finds every tensor that was left on the CPU."""
    model, batch = model.to("meta"), batch.to("meta")
    asked: dict[str, Callable[[], Any]] = {"loss": lambda: model.loss(batch)}
    asked |= {name: partial(ask, batch) for name, ask in maps(model).items()}
    asked |= {name: partial(ask, None) for name, ask in draws(model, batch).items()}
    faults, exempt = [], []
    for name, ask in asked.items():
        try:
            with _unvalidated(), _OneDevice():  # type: ignore[no-untyped-call]
                output = ask()
        except _NoKernel as reason:
            exempt.append(f"{name} (no meta kernel: {reason})")
        except Exception as error:
            faults.append(f"{name} fails: {str(error).strip().splitlines()[0]}")
        else:
            if any(not part.is_meta for part in tensors_of(output)):
                faults.append(f"{name} comes back on the CPU")
    left = f"; exempt: {', '.join(exempt)}" if exempt else ""
    return violations(faults, f"{', '.join(asked)}{left}")


def _expect_predictions(
    predict: Callable[..., Tensor],
    batch: Labeled,
    expect: Callable[[str, tuple[int, ...], tuple[int, ...]], None],
    faults: list[str],
) -> None:
    mode, mean, drawn = (predict(*batch.inputs, how=how) for how in ("mode", "mean", "sample"))
    label = tuple(batch.y.shape)
    expect("predict mode", tuple(mode.shape), label)
    expect("predict sample", tuple(drawn.shape), label)
    expect("predict mean", tuple(mean.shape), label if batch.y.is_floating_point() else (*label, mean.shape[-1]))
    if mode.is_floating_point() != batch.y.is_floating_point():
        faults.append(f"predict mode gives {mode.dtype} for labels of {batch.y.dtype}")


def _mean(output: Distribution | Tensor) -> Tensor:
    return output.mean if isinstance(output, Distribution) else output


class _NoKernel(Exception):
    pass


class _OneDevice(TorchDispatchMode):
    """Refuses an operation that mixes the meta device with the CPU, also where torch's own meta kernel lets it pass."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name
        parts = [part for part in tree_leaves((args, kwargs)) if isinstance(part, Tensor)]
        if name in NO_META_KERNEL and any(part.is_meta for part in parts):
            raise _NoKernel(name)
        devices = {part.device.type for part in parts if part.ndim > 0}
        if len(devices) > 1 and not (name in ANY_DEVICE and parts[0].is_meta):
            raise RuntimeError(f"{name} gets a tensor that was left on the CPU")
        return func(*args, **(kwargs or {}))


@contextmanager
def _unvalidated() -> Iterator[None]:
    """Without the checks of the values of a distribution's parameters, which are not there on the meta device."""
    before = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(before)
