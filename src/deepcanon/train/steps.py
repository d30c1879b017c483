"""Training steps: each of a model's turns is played by a step of an optimizer, or by a rule of the model's own.

Here are gradient accumulation, gradient clipping, mixed precision (autocast) and the average over processes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import Absorb, AnyBatch, Descend, Model, Terms, Turn, UsageError
from deepcanon.core.settings import Settings
from deepcanon.optim import optimizer
from deepcanon.train.distributed import World
from deepcanon.train.settings import clipping, torch_device
from deepcanon.train.variables import Variables


class Player:
    """The player of an ``Absorb``: the rule gets the batch of all processes, and all take the first one's result."""

    def __init__(self, turn: Turn[Any], model: Model[Any], world: World) -> None:
        self.turn = turn
        self.model = model
        self.world = world
        self.norm: Tensor | None = None
        """The norm of the last gradient, where one was asked for."""

    def play(self, whole: AnyBatch, shard: AnyBatch, factor: float, want_norm: bool) -> Terms:
        if not isinstance(self.turn, Absorb):
            raise UsageError(f"the turn {self.turn.name!r} is neither a Descend nor an Absorb")
        with torch.no_grad():
            terms = self.turn.rule(whole) or {}
        self.world.spread(self.model.state_dict().values())
        return terms

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        return


class Descender(Player):
    """The player of a ``Descend``: gradient, average over processes, clipping and step, in the optimizer's closure."""

    def __init__(self, turn: Descend[Any], model: Model[Any], settings: Settings, world: World) -> None:
        super().__init__(turn, model, world)
        self.descend = turn
        own = {id(parameter) for parameter in turn.parameters}
        self.parameters = [parameter for parameter in turn.parameters if parameter.requires_grad]
        self.others = [p for p in model.parameters() if p.requires_grad and id(p) not in own]
        if not self.parameters:
            raise UsageError(f"all parameters of the turn {turn.name!r} are frozen; nothing is left to train")
        # A turn's own rate keeps its proportion to the recipe's when the caller sets another.
        self.lr = settings["lr"] if turn.lr is None else turn.lr * settings["lr"] / model.recipe.lr
        self.name = turn.optimizer or settings["optimizer"]
        self.variables = Variables(self.parameters, turn.coordinates)
        self.optimizer = optimizer(self.name, self.variables.listed, self.lr)
        self.clipping = clipping(settings)
        # Rows that a sparse gradient leaves out need not be touched, if nothing but the step uses it.
        self.by_rows = world.size == 1 and self.clipping is None and _steps_by_rows(self.optimizer)
        self.accumulate = settings["accumulate"]
        self.want_terms = True
        self.autocast: Callable[[], AbstractContextManager[Any]] = nullcontext
        if settings["precision"] == "bf16":
            kind = torch_device(settings).type
            self.autocast = lambda: torch.autocast(kind, dtype=torch.bfloat16)

    def play(self, whole: AnyBatch, shard: AnyBatch, factor: float, want_norm: bool) -> Terms:
        recorded: Terms = {}
        weight = of_all = self.model.weight_of(whole)
        if of_all == 0:  # sequences of one token each, say: nothing is predicted in them, so nothing is to learn
            return recorded
        if shard is not whole:
            weight = self.model.weight_of(shard)
        share = weight / of_all
        self.want_terms = want_norm or isinstance(self.optimizer, torch.optim.LBFGS)  # whose line search needs the loss

        def closure() -> Tensor:
            self.variables.write()
            for parameter in self.parameters:
                parameter.grad = None
            terms = self._gradients(shard, weight)
            self._write_out()
            self.world.average(self.parameters, share)
            self._clip(want_norm)
            self.variables.read_gradients()
            if not recorded:  # of an optimizer with several evaluations the first is logged
                recorded.update(terms)
            loss = _sum(terms) if terms else self.parameters[0].new_zeros(())
            return self.world.total(loss, share)  # a line search must end alike in all processes

        for group in self.optimizer.param_groups:
            group["lr"] = self.lr * factor
        for parameter in self.others:
            parameter.requires_grad_(False)
        try:
            self.variables.read()
            self.optimizer.step(closure)  # type: ignore[arg-type]
            self.variables.write()
        finally:
            for parameter in self.others:
                parameter.requires_grad_(True)
        if self.descend.after is not None:
            with torch.no_grad():
                self.descend.after()
        return recorded

    def _gradients(self, shard: AnyBatch, whole: float) -> Terms:
        if whole == 0:  # a last batch smaller than the number of processes, or a share of it without a term
            return {}
        if self.accumulate == 1 or len(shard) == 1:
            return self._gradient_of(shard, 1.0)
        total: Terms = {}
        by_hand: list[Tensor | None] | None = None
        for index in torch.arange(len(shard), device=shard.x.device).tensor_split(min(self.accumulate, len(shard))):
            part = shard.select(index)
            weight = self.model.weight_of(part) / whole
            if weight == 0:
                continue
            for name, value in self._gradient_of(part, weight).items():
                total[name] = total.get(name, 0.0) + value * weight
            if self.descend.gradient is not None:  # a rule by hand overwrites .grad, so its parts are added here
                by_hand = _added(by_hand, [parameter.grad for parameter in self.parameters], weight)
        if by_hand is not None:
            for parameter, gradient in zip(self.parameters, by_hand, strict=True):
                parameter.grad = gradient
        return total

    def _gradient_of(self, batch: AnyBatch, weight: float) -> Terms:
        with self.autocast():
            if self.descend.gradient is not None:
                on_demand = self.descend.gradient(batch)
                return {name: value.detach() for name, value in on_demand().items()} if self.want_terms else {}
            terms = self.descend.loss(batch)
        total = _sum(terms)
        (total if weight == 1.0 else total * weight).backward()
        return {name: value.detach() for name, value in terms.items()}

    def _write_out(self) -> None:
        """Make sparse gradients dense, unless the optimizer can step on single rows."""
        for parameter in self.parameters:
            if parameter.grad is not None and parameter.grad.is_sparse and not self.by_rows:
                parameter.grad = parameter.grad.to_dense()

    def _clip(self, want_norm: bool) -> None:
        kind, limit = self.clipping or (None, 0.0)
        if kind == "norm":
            self.norm = clip_by_norm(self.parameters, limit)
            return
        if want_norm:
            gradients = [p.grad for p in self.parameters if p.grad is not None]
            self.norm = nn.utils.get_total_norm([g.coalesce().values() if g.is_sparse else g for g in gradients])
        if kind == "value":
            nn.utils.clip_grad_value_(self.parameters, limit)

    def state(self) -> dict[str, Any]:
        """The optimizer's state by the position of each parameter, uncast, so that it comes back bit for bit."""
        states = [dict(self.optimizer.state.get(variable, {})) for variable in self.variables.listed]
        groups = [{k: v for k, v in group.items() if k != "params"} for group in self.optimizer.param_groups]
        return {"parameters": states, "groups": groups}

    def restore(self, state: dict[str, Any]) -> None:
        self.optimizer.state.clear()
        for variable, saved in zip(self.variables.listed, state["parameters"], strict=True):
            if saved:
                if "fused" in self.optimizer.defaults:
                    _check_fused(saved, variable)
                self.optimizer.state[variable] = _moved(saved, variable)
        for group, saved in zip(self.optimizer.param_groups, state["groups"], strict=True):
            for option in group.keys() & saved.keys():
                if not _alike(group[option], saved[option]):
                    raise UsageError(f"the option {option} of the optimizer {self.name} cannot be {saved[option]!r}")
            group.update(saved)
        self._try()

    def _try(self) -> None:
        """Take a step on a copy: a state that the optimizer cannot use is found now, and not in the training."""
        copies = [nn.Parameter(variable.detach().clone()) for variable in self.variables.listed]
        trial = optimizer(self.name, copies, self.lr)
        for group, saved in zip(trial.param_groups, self.optimizer.param_groups, strict=True):
            group.update({option: value for option, value in saved.items() if option != "params"})
        for variable, twin in zip(self.variables.listed, copies, strict=True):
            twin.grad = torch.full_like(twin, 1e-3)
            if variable in self.optimizer.state:
                trial.state[twin] = copy.deepcopy(self.optimizer.state[variable])
        trial.step(lambda: 0.0)


@torch.no_grad()
def clip_by_norm(parameters: Sequence[Tensor], limit: float) -> Tensor:
    r"""Scale the gradients so that their norm is at most ``limit``, and return what it was: :math:`\lVert g \rVert`.

    .. math:: g \leftarrow g \cdot \min(1, c / \lVert g \rVert)

    As torch's ``clip_grad_norm_``; but on a CPU, where a look at the norm waits for nothing, gradients within the limit
    stay as they are.

    References:
        | On the difficulty of training recurrent neural networks (Pascanu et al., 2013), https://arxiv.org/abs/1211.5063

    >>> weight = torch.zeros(2, requires_grad=True)
    >>> weight.grad = torch.tensor([3.0, 4.0])
    >>> clip_by_norm([weight], 1.0), weight.grad
    (tensor(5.), tensor([0.6000, 0.8000]))
    """
    norm = nn.utils.get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
    if norm.device.type != "cpu" or not norm <= limit:
        nn.utils.clip_grads_with_norm_(parameters, limit, norm)
    return norm


def players(model: Model[Any], settings: Settings, world: World) -> list[Player]:
    """One player for each of the model's turns."""
    return [
        Descender(turn, model, settings, world) if isinstance(turn, Descend) else Player(turn, model, world)
        for turn in model.turns()
    ]


def _steps_by_rows(optimizer: torch.optim.Optimizer) -> bool:
    """Whether the optimizer takes sparse gradients and changes no row that they leave out: SGD without more."""
    more = ("fused", "foreach", "momentum", "weight_decay")
    return isinstance(optimizer, torch.optim.SGD) and not any(optimizer.defaults[option] for option in more)


def _sum(terms: Terms) -> Tensor:
    first, *rest = terms.values()
    return sum(rest, start=first)


def _added(total: list[Tensor | None] | None, part: Sequence[Tensor | None], weight: float) -> list[Tensor | None]:
    scaled = [None if gradient is None else gradient * weight for gradient in part]
    if total is None:
        return scaled
    return [b if a is None else a if b is None else a + b for a, b in zip(total, scaled, strict=True)]


def _moved(saved: dict[str, Any], parameter: nn.Parameter) -> dict[str, Any]:
    """Tensors of the parameter's shape go to its device; counters stay where the optimizer keeps them."""
    if parameter.device.type == "cpu":
        return saved
    return {k: v.to(parameter.device) if isinstance(v, Tensor) and v.ndim else v for k, v in saved.items()}


def _check_fused(saved: Mapping[str, Any], parameter: nn.Parameter) -> None:
    """Refuse a state of another shape or type than the parameter's: fused kernels would read beyond its end."""
    for name, value in saved.items():
        wanted = ((), torch.float32) if name == "step" else (tuple(parameter.shape), parameter.dtype)
        if isinstance(value, Tensor) and (tuple(value.shape), value.dtype) != wanted:
            raise UsageError(
                f"{name} of the optimizer is {tuple(value.shape)} {value.dtype}, not {wanted[0]} {wanted[1]}"
            )


def _alike(one: Any, other: Any) -> bool:
    """Whether two options of an optimizer are of one kind: both numbers, both truth values, tuples of one length."""
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(_alike, one, other))
    numbers = [isinstance(each, int | float) and not isinstance(each, bool) for each in (one, other)]
    return all(numbers) or type(one) is type(other)
