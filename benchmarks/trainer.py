"""The trainer compared with the loops people use: MLP 784-512-512-10, batches of 128, Adam, one thread.

    python benchmarks/trainer.py [--rounds 60] [--json results.json]
    python benchmarks/trainer.py --end-to-end [--rounds 5] [--epochs 1]

Blocks of 20 steps are interleaved, each candidate in a process of its own; the table gives medians over pairs of
blocks and an A/A control. With ``--end-to-end`` a block is a whole training from the call of ``fit`` to its result,
evaluation included, compared with a bare loop over the same epochs that evaluates nothing.
Peers run with their own defaults and need ``pip install -c constraints.txt -e '.[bench]'``; those not installed are
left out.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "KERAS_BACKEND": "torch"}

import argparse
import contextlib
import importlib.util
import io
import json
import logging
import platform
import statistics
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from relay import STEPS, Candidate, race, ratio
from rich.console import Console
from torch import Tensor, nn

import deepcanon as dc
from deepcanon.core import Terms
from deepcanon.train import Observer, Trainer
from deepcanon.train.progress import Bar
from deepcanon.train.settings import resolve_settings

N, FEATURES, CLASSES, BATCH, LR = 60_000, 784, 10, 128, 1e-3
FOREVER = 1000
Lap = Callable[[], None]


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(N, FEATURES, generator=generator), torch.randint(0, CLASSES, (N,), generator=generator)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(FEATURES, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, CLASSES)
    )  # fmt: skip


def bare(x: Tensor, y: Tensor) -> Callable[[Lap], None]:
    """The fastest plain loop: index select and the fused optimizer, nothing logged."""

    def train(lap: Lap) -> None:
        net = network()
        optimizer = torch.optim.Adam(net.parameters(), lr=LR, fused=True)
        for _ in range(FOREVER):
            for index in torch.randperm(N).split(BATCH):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(net(x.index_select(0, index)), y.index_select(0, index))
                loss.backward()
                optimizer.step()
                lap()

    return train


def ours(x: Tensor, y: Tensor) -> Callable[[Lap], None]:
    """The Trainer as it comes: run folder, log, gradient norms, progress bar."""

    def train(lap: Lap) -> None:
        class Lapper(Observer):
            def step(self, trainer: Trainer, terms: Terms) -> None:
                lap()

        torch.manual_seed(0)
        model = dc.find("mlp")(features=FEATURES, classes=CLASSES, hidden=(512, 512))
        settings = resolve_settings(model.recipe, lr=LR, batch_size=BATCH, epochs=FOREVER)
        trainer = Trainer(model, dc.from_tensors(x, y), settings, quiet=True)
        screen = Console(file=io.StringIO(), force_terminal=True, width=120)
        trainer.observers += [Bar(trainer.log, screen), Lapper()]
        with tempfile.TemporaryDirectory() as folder:
            trainer.write_to(Path(folder) / "run", overwrite=False)
            trainer.fit()

    return train


def whole_fits(x: Tensor, y: Tensor, epochs: int) -> Callable[[Lap], None]:
    """One whole ``fit`` after the other; a block of the relay is one of them."""

    def train(lap: Lap) -> None:
        data = dc.from_tensors(x, y)
        for _ in range(FOREVER):
            torch.manual_seed(0)
            model = dc.find("mlp")(features=FEATURES, classes=CLASSES, hidden=(512, 512))
            dc.fit(model, data, lr=LR, batch_size=BATCH, epochs=epochs, quiet=True)
            for _ in range(STEPS):
                lap()

    return train


def whole_loops(x: Tensor, y: Tensor, epochs: int) -> Callable[[Lap], None]:
    """The bare loop over as many epochs, one after the other."""

    def train(lap: Lap) -> None:
        for _ in range(FOREVER):
            net = network()
            optimizer = torch.optim.Adam(net.parameters(), lr=LR, fused=True)
            for _ in range(epochs):
                for index in torch.randperm(N).split(BATCH):
                    optimizer.zero_grad()
                    loss = nn.functional.cross_entropy(net(x.index_select(0, index)), y.index_select(0, index))
                    loss.backward()
                    optimizer.step()
            for _ in range(STEPS):
                lap()

    return train


def end_to_end(rounds: int, epochs: int) -> None:
    """Print how fast whole trainings are compared with bare loops."""
    x, y = data()
    fits, loops = Candidate("fit", whole_fits(x, y, epochs)), Candidate("bare loop", whole_loops(x, y, epochs))
    again = Candidate("bare loop again", whole_loops(x, y, epochs))
    race([fits, loops, again], rounds, warm_up=1)
    print(f"fit end to end, {epochs} epoch(s): {ratio(loops, fits):.2f}x of a bare loop's speed ({rounds} rounds)")
    print(f"A/A control (bare loop against itself): {ratio(loops, again):.3f}x")


def data_loader(x: Tensor, y: Tensor) -> Callable[[Lap], None]:
    """The loop of most tutorials: DataLoader, Adam as it comes, the loss added up."""

    def train(lap: Lap) -> None:
        net = network()
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=BATCH, shuffle=True)
        optimizer = torch.optim.Adam(net.parameters(), lr=LR)
        for _ in range(FOREVER):
            running = 0.0
            for inputs, targets in loader:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(net(inputs), targets)
                loss.backward()
                optimizer.step()
                running += loss.item()
                lap()

    return train


def lightning(x: Tensor, y: Tensor) -> Callable[[Lap], None]:
    def train(lap: Lap) -> None:
        import lightning as L

        class Module(L.LightningModule):  # type: ignore[misc, unused-ignore]
            def __init__(self) -> None:
                super().__init__()
                self.net = network()

            def training_step(self, batch: Any, place: int) -> Tensor:
                loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
                self.log("loss", loss, prog_bar=True)
                return loss

            def configure_optimizers(self) -> torch.optim.Optimizer:
                return torch.optim.Adam(self.parameters(), lr=LR)

        class Lapper(L.Callback):  # type: ignore[misc, unused-ignore]
            def on_train_batch_end(self, *_: Any) -> None:
                lap()

        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=BATCH, shuffle=True)
        with tempfile.TemporaryDirectory() as folder:
            trainer = L.Trainer(max_epochs=FOREVER, accelerator="cpu", default_root_dir=folder, callbacks=[Lapper()])
            trainer.fit(Module(), loader)

    return train


def skorch(x: Tensor, y: Tensor) -> Callable[[Lap], None]:
    def train(lap: Lap) -> None:
        from skorch import NeuralNetClassifier
        from skorch.callbacks import Callback

        class Lapper(Callback):  # type: ignore[misc, unused-ignore]
            def on_batch_end(self, net: Any, **_: Any) -> None:
                lap()

        classifier = NeuralNetClassifier(
            network(),
            criterion=nn.CrossEntropyLoss,
            optimizer=torch.optim.Adam,
            lr=LR,
            batch_size=BATCH,
            max_epochs=FOREVER,
            train_split=None,
            iterator_train__shuffle=True,
            callbacks=[Lapper()],
        )
        classifier.fit(x.numpy(), y.numpy())  # arrays, as in scikit-learn, whose interface it offers

    return train


def keras(x: Tensor, y: Tensor) -> Callable[[Lap], None]:
    def train(lap: Lap) -> None:
        import keras as k

        class Lapper(k.callbacks.Callback):  # type: ignore[misc, unused-ignore]
            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                lap()

        layers = k.layers
        model = k.Sequential(
            [layers.Input((FEATURES,)), layers.Dense(512, "relu"), layers.Dense(512, "relu"), layers.Dense(CLASSES)]
        )
        loss = k.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer=k.optimizers.Adam(LR), loss=loss)
        model.fit(x.numpy(), y.numpy(), batch_size=BATCH, epochs=FOREVER, callbacks=[Lapper()])

    return train


PEERS = {"lightning": lightning, "skorch": skorch, "keras": keras}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=60, help="interleaved blocks of each candidate")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    parser.add_argument("--end-to-end", action="store_true", help="race whole trainings, evaluation included")
    parser.add_argument("--epochs", type=int, default=1, help="the epochs of a whole training")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if arguments.end_to_end:
        end_to_end(min(arguments.rounds, 5), arguments.epochs)
        return
    logging.disable(logging.INFO)
    x, y = data()
    makers = {"deepcanon": ours, "bare loop": bare, "bare loop again": bare, "DataLoader loop": data_loader}
    makers |= {name: maker for name, maker in PEERS.items() if importlib.util.find_spec(name)}
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        candidates = {name: Candidate(name, maker(x, y)) for name, maker in makers.items()}
        race(list(candidates.values()), arguments.rounds)
    mine = candidates["deepcanon"]
    machine = f"torch {torch.__version__}, {platform.machine()}, 1 thread"
    print(f"{machine}, {arguments.rounds} interleaved blocks of {STEPS} steps")
    print(f"{'':18} {'steps/s':>8}  deepcanon is faster by")
    numbers = {}
    for name, candidate in candidates.items():
        speed = STEPS / statistics.median(candidate.blocks)
        numbers[name] = {"steps_per_second": round(speed, 1), "deepcanon_faster_by": round(ratio(candidate, mine), 3)}
        print(f"{name:18} {speed:8.1f}  {ratio(candidate, mine):.2f}x")
    control = ratio(candidates["bare loop"], candidates["bare loop again"])
    print(f"A/A control (bare loop against itself): {control:.3f}x")
    if arguments.json:
        arguments.json.write_text(json.dumps({**numbers, "control": round(control, 3)}, indent=1) + "\n")


if __name__ == "__main__":
    main()
