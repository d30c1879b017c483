"""What each of two processes does in test_distributed.py; started by torchrun, or alone for comparison."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import safetensors.torch
import torch
from torch import Tensor, nn

import deepcanon as dc
from deepcanon import catalogue
from deepcanon.core import Batch, Descend, Labeled, Model, Terms, Turn
from deepcanon.data import Dataset
from deepcanon.laws.learning import ragged
from deepcanon.train.distributed import World
from deepcanon.train.settings import resolve_settings
from deepcanon.train.steps import Descender, players


class ByHand(Model[Batch]):
    """A linear autoencoder of one unit whose gradient is written by hand: nothing ever calls backward."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((features,), 0.1))

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        return cls(4), Batch(torch.rand(8, 4))

    @torch.no_grad()
    def loss(self, batch: Batch) -> Terms:
        x = batch.x.flatten(1)
        return {"square": (x - (x @ self.weight)[:, None] * self.weight).square().sum(-1).mean()}

    @torch.no_grad()
    def gradient(self, batch: Batch) -> Callable[[], Terms]:
        x = batch.x.flatten(1)
        code = x @ self.weight  # (B,)
        error = code[:, None] * self.weight - x  # (B, features)
        self.weight.grad = 2 * (code[:, None] * error + (error @ self.weight)[:, None] * x).mean(0)
        return lambda: self.loss(batch)

    def turns(self) -> Sequence[Turn[Batch]]:
        return [Descend(self.loss, self.parameters(), gradient=self.gradient)]


def make(name: str) -> Model[Any]:
    torch.manual_seed(2)
    if name == "by_hand":
        return ByHand(64)
    arguments: dict[str, dict[str, Any]] = {
        "mlp": {"features": 64, "classes": 10, "hidden": (32,)},
        "mlp_dropout": {"features": 64, "classes": 10, "hidden": (32,), "dropout": 0.2},
        "vae": {"features": 64, "latent": 4, "hidden": (32,)},
        "gan": {"features": 64, "hidden": (32,)},
        "deepar": {"features": 1, "covariates": 2, "units": 5, "layers": 1},
    }
    return dc.find(name.partition("_")[0])(**arguments[name])


def series() -> Any:
    """Series of unequal length, of which two processes predict different numbers of steps."""
    x = torch.randn(90, 12, 3, generator=torch.Generator().manual_seed(0))
    lengths = 3 + torch.arange(90) ** 2 % 10
    return dc.from_tensors(x[..., :1], lengths=lengths, covariates=x[..., 1:])


def first_gradient(whole: Labeled, world: World) -> dict[str, Tensor]:
    """The gradient of the first step in float64, on a batch that two processes cannot share evenly."""
    model = make("mlp").double()
    batch = Labeled(whole.x[:33].double(), whole.y[:33])
    (player,) = players(model, resolve_settings(model.recipe, optimizer="sgd"), world)
    assert isinstance(player, Descender)
    shard = batch.select(world.shard(torch.arange(33)))
    player.play(batch, shard, 1.0, False)
    return {f"gradient/{name}": p.grad for name, p in model.named_parameters() if p.grad is not None}


def first_step_of_every_model(world: World) -> dict[str, Tensor]:
    """The weights of each model of the catalogue after one step on ragged data that processes cannot share evenly.

    ``certain/NAME`` says whether one process must come to the same: its loss is free of random draws, and of batch
    normalization, which normalizes each process's part by itself.
    """
    tensors: dict[str, Tensor] = {}
    for entry in catalogue.entries():
        torch.manual_seed(0)
        model, batch = catalogue.find(entry.name).example()
        data: Dataset[Any] = Dataset(name=entry.name, kind="table", train=ragged(batch), shape=tuple(batch.x.shape[1:]))
        again = [_terms(model, data.train, seed) for seed in (0, 1)]
        dc.fit(model, data, steps=1, batch_size=max(1, len(batch) - 1), optimizer="sgd", lr=1e-2, quiet=True)
        normalized = any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in model.modules())
        tensors |= {f"catalogue/{entry.name}/{key}": value for key, value in model.state_dict().items()}
        tensors[f"certain/{entry.name}"] = torch.tensor(int(again[0] == again[1] and not normalized))
    return tensors


def _terms(model: Model[Any], batch: Any, seed: int) -> list[float]:
    """The terms of all losses of a copy in training mode, with this seed; what it prepares is the first process's."""
    torch.manual_seed(0)
    model = copy.deepcopy(model).train()
    model.prepare([batch])
    torch.manual_seed(seed)
    turns = [turn for turn in model.turns() if isinstance(turn, Descend)]
    return [float(term.detach()) for turn in turns for term in turn.loss(batch).values()]


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    data = dc.load_data("digits")
    world = World()
    tensors = first_gradient(data.train, world) | first_step_of_every_model(world)
    for name in ("mlp", "mlp_dropout", "vae", "gan", "by_hand", "deepar"):
        model = make(name)
        out = folder / f"run-{name}-{world.size}" if name == "mlp" else None
        learned = series() if name == "deepar" else data
        dc.fit(model, learned, out=out, steps=50, batch_size=33, checkpoint_every=20, quiet=True)
        tensors |= {f"{name}/{key}": value for key, value in model.state_dict().items()}
    searching = make("mlp")
    dc.fit(searching, data, steps=3, optimizer="lbfgs:line_search_fn=strong_wolfe,max_iter=5", quiet=True)
    tensors |= {f"lbfgs/{key}": value for key, value in searching.state_dict().items()}
    safetensors.torch.save_file(tensors, folder / f"rank-{world.rank}-of-{world.size}.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
