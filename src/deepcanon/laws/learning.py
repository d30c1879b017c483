"""The laws of learning: the terms of the loss, the turns, and the state that is saved and loaded."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from deepcanon.core import Batch, Descend, Model, Terms
from deepcanon.laws.conditioned import rebound
from deepcanon.laws.documentation import rebuilt
from deepcanon.laws.outcome import Measured, law, violations
from deepcanon.laws.play import play, schedule, set_progress, train_briefly
from deepcanon.laws.probe import draws, maps, repeated, same, seeded, total

DRAWS = 64


@law
def terms_are_finite_scalars(model: Model[Any], batch: Batch) -> Measured:
    """The loss, the losses of all turns and the metrics are named, finite 0-d tensors."""
    named: dict[str, Terms] = {"loss": model.loss(batch)}
    for turn in model.turns():
        if isinstance(turn, Descend) and turn.gradient is None:
            named[f"turn {turn.name}"] = turn.loss(batch)
    model.eval()
    with torch.no_grad():
        metrics = model.metrics(batch)
    faults = [] if named["loss"] else ["the loss has no term"]
    for where, terms in (*named.items(), ("metrics", metrics)):
        for name, value in terms.items():
            if not isinstance(value, Tensor) or value.ndim != 0:
                faults.append(f"{name} of {where} is not a 0-d tensor")
            elif not bool(value.isfinite()):
                faults.append(f"{name} of {where} is {float(value.detach())}")
    return violations(faults, f"terms {', '.join(named['loss'])}; metrics {', '.join(metrics) or 'none'}")


@law
def every_parameter_is_trained(model: Model[Any], batch: Batch) -> Measured | None:
    """Each parameter that requires grad gets one that is not all zero, in some turn of some step."""
    wanted = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    if not wanted:
        return None
    reached: set[str] = set()
    for turn in schedule(model, batch):
        play(model, turn, batch)
        own = {id(parameter) for parameter in turn.parameters} if isinstance(turn, Descend) else set()
        reached |= {
            name for name, p in wanted.items() if id(p) in own and p.grad is not None and bool((p.grad != 0).any())
        }
    faults = [f"{name} never gets a gradient" for name in wanted if name not in reached]
    return violations(faults, f"{len(wanted)} parameters got a gradient")


@law
def turns_change_only_their_own(model: Model[Any], batch: Batch) -> Measured | None:
    """A turn of gradient descent changes no trained parameter that it does not declare."""
    if not any(isinstance(turn, Descend) for turn in model.turns()):
        return None
    faults: list[str] = []
    parameters = dict(model.named_parameters())
    everyone = {id(parameter) for parameter in parameters.values()}
    for turn in schedule(model, batch):
        if not isinstance(turn, Descend):
            play(model, turn, batch)
            continue
        own = {id(parameter) for parameter in turn.parameters}
        if not own <= everyone:
            faults.append(f"the turn {turn.name} declares parameters that are not the model's")
        others = {n: p for n, p in parameters.items() if p.requires_grad and id(p) not in own}
        before = {name: parameter.detach().clone() for name, parameter in others.items()}
        play(model, turn, batch)
        changed = [name for name, parameter in others.items() if not torch.equal(parameter, before[name])]
        faults += [f"the turn {turn.name} changes {name}, which it does not declare" for name in changed]
    return violations(list(dict.fromkeys(faults)), f"{len(model.turns())} turns kept to their own")


@law
def training_changes_the_state(model: Model[Any], batch: Batch) -> Measured:
    """Every turn changes something within a few steps."""
    idle = {turn.name for turn in model.turns()}
    names = sorted(idle)
    for turn in schedule(model, batch):
        before = {name: value.clone() for name, value in model.state_dict().items()}
        play(model, turn, batch)
        if any(not torch.equal(value, before[name]) for name, value in model.state_dict().items()):
            idle.discard(turn.name)
    return violations([f"the turn {name} changes nothing" for name in sorted(idle)], f"turns {', '.join(names)}")


@law
def state_round_trip(model: Model[Any], batch: Batch) -> Measured:
    """A trained model is its description and its tensors: rebuilt from them, it has the same outputs bit for bit."""
    train_briefly(model, batch)
    state = model.state_dict()
    faults = [f"{name} is a {type(v).__name__}, not a tensor" for name, v in state.items() if not isinstance(v, Tensor)]
    if faults:
        return violations(faults, "")
    stored = safetensors.torch.save({name: value.contiguous().clone() for name, value in state.items()})
    again = rebound(rebuilt(model), model)
    again.load_state_dict(safetensors.torch.load(stored))
    set_progress(again, model.progress)
    came = again.state_dict()
    faults = [f"the tensor {name} is not the same again" for name in state if not torch.equal(came[name], state[name])]
    old, new = _outputs(model, batch), _outputs(again, batch)
    for name, output in old.items():
        if not same(output, new[name]):
            faults.append(f"{name} is not the same again: some state is neither parameter nor buffer")
    return violations(faults, f"{len(state)} tensors came back bit for bit")


@law
def duplicated_batch_keeps_the_loss(model: Model[Any], batch: Batch) -> Measured | None:
    """Terms are means over examples: the same examples twice give the same loss, in expectation where it is random."""
    twice = repeated(batch, 2)
    if len(twice) == len(batch) or model.relates_examples:
        return None
    train_briefly(model, batch)
    model.eval()
    once, both = _losses(model, [batch], [1.0]), _losses(model, [twice], [1.0])
    gap, bound = _apart(once, both)
    return gap, bound, f"the loss is {float(once.mean()):.6g}, with every example twice {float(both.mean()):.6g}"


@law
def parts_add_up_to_the_whole(model: Model[Any], batch: Batch) -> Measured | None:
    """The losses of parts of a batch, each with its weight, make the loss of the whole; sequences get other lengths.

    So gradient accumulation and several processes learn what one does from the whole batch. The law does not apply to
    a model that declares that its loss relates the examples of a batch to each other.
    """
    if len(batch) < 3 or len(repeated(batch, 2)) == len(batch) or model.relates_examples:
        return None
    batch = ragged(batch)
    train_briefly(model, batch)
    model.eval()
    sizes = [1, (len(batch) - 1) // 2, len(batch) // 2]
    parts = [batch.select(index) for index in torch.arange(len(batch), device=batch.device).split(sizes)]
    weights = [model.weight_of(part) / model.weight_of(batch) for part in parts]
    whole, added = _losses(model, [batch], [1.0]), _losses(model, parts, weights)
    gap, bound = _apart(whole, added)
    return gap, bound, f"the loss is {float(whole.mean()):.6g}, of {len(parts)} parts {float(added.mean()):.6g}"


def ragged(batch: Batch) -> Batch:
    """The batch with sequences of different lengths, if it has sequences."""
    lengths = getattr(batch, "lengths", None)
    if lengths is None:
        return batch
    cut = torch.arange(len(batch), device=lengths.device) % 3
    return replace(batch, lengths=(lengths - cut).clamp_min(2))  # type: ignore[call-arg]


def _losses(model: Model[Any], parts: Sequence[Batch], weights: Sequence[float]) -> Tensor:
    """The weighted sum of the losses of the parts by many seeds, or by two where nothing is drawn at random."""

    def added(seed: int) -> Tensor:
        return torch.stack([_loss(model, part, seed) * w for part, w in zip(parts, weights, strict=True)]).sum()

    torch.manual_seed(1)
    unmoved, two = torch.get_rng_state(), [added(0), added(1)]
    certain = torch.equal(*two) and torch.equal(torch.get_rng_state(), unmoved)  # the last loss began with seed 1
    return torch.stack(two if certain else [*two, *map(added, range(2, DRAWS))])


def _apart(one: Tensor, other: Tensor) -> tuple[float, float]:
    """How far the means of two sets of draws are apart, and how far chance and rounding may bring them."""
    noise = math.sqrt(float(one.var() / len(one) + other.var() / len(other)))
    gap = abs(float(one.mean() - other.mean()))
    return gap, 6 * noise + 1e-5 * (1 + abs(float(one.mean())))


def _loss(model: Model[Any], batch: Batch, seed: int) -> Tensor:
    torch.manual_seed(seed)
    with torch.no_grad():
        return total(model.loss(batch)).double()


def _outputs(model: Model[Any], batch: Batch) -> dict[str, Any]:
    """All outputs of a model: its loss, its deterministic maps and its samples."""
    model = copy.deepcopy(model).eval()
    with torch.no_grad():
        found: dict[str, Any] = {"loss": _loss(model, batch, 0)}
        found |= {name: ask(batch) for name, ask in maps(model).items()}
        found |= {name: ask(seeded(0)) for name, ask in draws(model, batch).items()}
    return found
