"""The trainer against loops written out by hand, and its promises to people."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import deepcanon as dc
from deepcanon.core import Batch, DivergenceError, Labeled, Model, Recipe, Terms, UsageError
from deepcanon.core.toy import Toy
from deepcanon.data import Dataset
from deepcanon.runs import checkpoint
from deepcanon.runs.folder import RunFolder
from deepcanon.train import Observer, Stopped, Trainer
from deepcanon.train.randomness import seed_from
from deepcanon.train.settings import resolve_settings


class Classifier(Model[Labeled]):
    """A small network with dropout, for trainings that draw random numbers."""

    recipe = Recipe(lr=0.01, batch_size=16, epochs=3)

    def __init__(self, features: int = 2, classes: int = 2, dropout: float = 0.3) -> None:
        super().__init__()
        self.last = nn.Linear(16, classes)
        self.net = nn.Sequential(nn.Linear(features, 16), nn.ReLU(), nn.Dropout(dropout), self.last)

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        x = torch.randn(70, 2, generator=torch.Generator().manual_seed(0))
        return cls(), Labeled(x, (x[:, 0] > 0).long())

    def loss(self, batch: Labeled) -> Terms:
        return {"cross_entropy": nn.functional.cross_entropy(self.net(batch.x), batch.y)}

    def predict(self, x: torch.Tensor, how: str = "mode", generator: Any = None) -> torch.Tensor:
        logits: torch.Tensor = self.net(x)
        return logits.argmax(-1) if how == "mode" else logits.softmax(-1)


def setting(seed: int = 0, **arguments: Any) -> tuple[Classifier, Dataset[Any]]:
    torch.manual_seed(seed)
    _, batch = Classifier.example()
    return Classifier(**arguments), dc.from_tensors(batch.x, batch.y)


def test_training_is_the_loop_one_would_write() -> None:
    model, data = setting(dropout=0.0)
    twin, _ = setting(dropout=0.0)
    dc.fit(model, data, quiet=True, seed=4, schedule="cosine", optimizer="adam:fused=false")
    optimizer = torch.optim.Adam(twin.parameters(), lr=0.01)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=15)
    for epoch in range(3):
        order = torch.randperm(70, generator=torch.Generator().manual_seed(seed_from(4, "epoch", epoch)))
        for index in order.split(16):
            optimizer.zero_grad()
            twin.loss(data.train.select(index))["cross_entropy"].backward()
            optimizer.step()
            cosine.step()
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


def test_the_same_seed_gives_the_same_bits_and_another_seed_others() -> None:
    results = []
    for seed in (1, 1, 2):
        model, data = setting()
        dc.fit(model, data, quiet=True, seed=seed)
        results.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_observers_progress_validation_and_a_run_folder_change_no_bit(tmp_path: Path) -> None:
    plain, data = setting()
    dc.fit(plain, data, quiet=True)
    watched, _ = setting()
    valid = data.train.select(torch.arange(20))
    full = Dataset("tensors", "table", data.train, valid, valid, sizes=data.sizes)
    dc.fit(watched, full, out=tmp_path, checkpoint_every=2)
    for a, b in zip(plain.parameters(), watched.parameters(), strict=True):
        assert torch.equal(a, b)


def test_fit_leaves_the_callers_random_states_alone() -> None:
    model, data = setting()
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    expected = torch.rand(1), random.random(), np.random.rand()  # noqa: NPY002
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    dc.fit(model, data, quiet=True)
    assert (torch.rand(1), random.random(), np.random.rand()) == expected  # noqa: NPY002


def test_fit_without_out_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model, data = setting()
    assert dc.fit(model, data, quiet=True).run is None
    assert list(tmp_path.iterdir()) == []


def test_the_moving_average_is_what_is_kept() -> None:
    model, data = setting(dropout=0.0)
    paths: list[torch.Tensor] = []

    class Recorder(Observer):
        def step(self, trainer: Trainer, terms: Terms) -> None:
            paths.append(model.last.bias.detach().clone())

    start = model.last.bias.detach().clone()
    result = dc.fit(model, data, quiet=True, ema=0.5, observers=[Recorder()])
    expected = start
    for step, value in enumerate(paths, 1):
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * value
    assert len(paths) > 8  # so that the last of them have the decay that was asked for
    torch.testing.assert_close(model.last.bias.detach(), expected, rtol=0, atol=1e-6)
    assert result.weights == "moving average"
    plain, _ = setting(dropout=0.0)
    none, _ = setting(dropout=0.0)
    dc.fit(plain, data, quiet=True)
    dc.fit(none, data, quiet=True, ema=0.0)
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), none.parameters(), strict=True))


def test_early_stopping_keeps_the_best_weights(tmp_path: Path) -> None:
    """Labels by chance: the validation loss rises soon, while the training loss falls."""
    model, data = setting(dropout=0.0)
    chance = torch.randint(0, 2, (70,), generator=torch.Generator().manual_seed(1))
    data = dc.from_tensors(data.train.x, chance)
    result = dc.fit(model, data, out=tmp_path, quiet=True, epochs=300, lr=0.05, patience=5)
    epochs = [record for record in result.history if record["kind"] == "epoch"]
    losses = [record["valid"]["loss"] for record in epochs]
    assert len(losses) < 300
    assert losses.index(min(losses)) == len(losses) - 1 - 5
    assert result.valid["loss"] == pytest.approx(min(losses), abs=1e-6)
    assert f"of step {epochs[losses.index(min(losses))]['step']}" in RunFolder.open(tmp_path).info["weights"]
    assert dc.load(tmp_path, Classifier).state_dict().keys() == model.state_dict().keys()


def test_watching_accuracy_means_more_is_better() -> None:
    model, data = setting()
    result = dc.fit(model, data, quiet=True, epochs=10, watch="accuracy")
    best = max(record["valid"]["accuracy"] for record in result.history if record["kind"] == "epoch")
    assert result.valid["accuracy"] == pytest.approx(best)
    with pytest.raises(UsageError, match=r"cannot watch 'f2'.*accuracy"):
        dc.fit(model, data, quiet=True, watch="f2")


def test_the_validation_split_is_drawn_by_seed_and_test_data_steer_nothing() -> None:
    _, data = setting()
    one, two, other = data.with_validation_split(0), data.with_validation_split(0), data.with_validation_split(1)
    assert torch.equal(one.split("valid").x, two.split("valid").x)
    assert not torch.equal(one.split("valid").x, other.split("valid").x)
    assert len(one.train) + len(one.split("valid")) == 70
    together = torch.cat([one.train.x, one.split("valid").x])
    assert torch.equal(together.sort(0).values, data.train.x.sort(0).values)
    results = []
    for test in (data.train.select(torch.arange(5)), data.train.select(torch.arange(30, 60))):
        model, _ = setting()
        full = Dataset("tensors", "table", data.train, None, test, sizes=data.sizes)
        dc.fit(model, full, quiet=True, patience=2, epochs=5)
        results.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.equal(*results)


class Explosive(Toy):
    """Becomes NaN at a step of choice."""

    def __init__(self, features: int, at: int = 13) -> None:
        super().__init__(features)
        self.at, self.calls = at, 0

    def loss(self, batch: Batch) -> Terms:
        self.calls += 1
        return {
            "fine": self.mean.sum() * 0,
            "culprit": super().loss(batch)["nll"] * (torch.nan if self.calls == self.at else 1),
        }


def test_nan_stops_the_run_and_names_the_term_the_step_and_a_remedy(tmp_path: Path) -> None:
    model, data = Explosive(2), dc.from_tensors(Toy.example()[1].x)
    with pytest.raises(DivergenceError, match=r"'culprit' became nan at step 13.*step-000000010.*smaller lr"):
        dc.fit(model, data, out=tmp_path, quiet=True, steps=3000, checkpoint_every=10)
    assert RunFolder.open(tmp_path).info["status"] == "diverged"
    good = checkpoint.latest(tmp_path / "checkpoints").state
    assert torch.isfinite(good["model"]["mean"]).all()


def test_an_exploding_loss_stops_the_run() -> None:
    with pytest.raises(DivergenceError, match="exploded"):
        dc.fit(Toy(2), dc.from_tensors(Toy.example()[1].x), quiet=True, optimizer="sgd", lr=5.0, steps=500)


class Falling(Toy):
    """Counts around 30,000, whose negative log-likelihood without its constant is far below zero."""

    def loss(self, batch: Any) -> Terms:
        rate = self.mean.exp().sum()
        return {"nll": rate - 30_000 * rate.log()}


def test_a_loss_may_be_negative_and_fall() -> None:
    model = Falling(1)
    result = dc.fit(model, dc.from_tensors(torch.zeros(8, 1)), quiet=True, optimizer="adam", lr=0.3, steps=200)
    assert result.train["loss"] < -200_000


def test_a_run_is_never_overwritten_unasked(tmp_path: Path) -> None:
    model, data = setting()
    dc.fit(model, data, out=tmp_path, quiet=True, epochs=1)
    (tmp_path / "mine.txt").write_text("keep me")
    before = (tmp_path / "run.json").read_bytes()
    with pytest.raises(UsageError, match="choose another folder"):
        dc.fit(model, data, out=tmp_path, quiet=True, epochs=1)
    assert (tmp_path / "run.json").read_bytes() == before
    dc.fit(model, data, out=tmp_path, quiet=True, epochs=2, overwrite=True)
    assert RunFolder.open(tmp_path).info["settings"]["epochs"] == 2
    assert (tmp_path / "mine.txt").read_text() == "keep me"


def test_a_folder_with_foreign_files_of_our_names_is_refused_even_with_overwrite(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"of someone else")
    model, data = setting()
    with pytest.raises(UsageError, match=r"no run\.json"):
        dc.fit(model, data, out=tmp_path, quiet=True, overwrite=True)
    assert (tmp_path / "model.safetensors").read_bytes() == b"of someone else"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_at_the_end_of_the_step_and_exits(tmp_path: Path, number: signal.Signals, code: int) -> None:
    class Interrupter(Observer):
        def step(self, trainer: Trainer, terms: Terms) -> None:
            if trainer.step == 7:
                os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    model, data = setting()
    with pytest.raises(Stopped) as stopped:
        dc.fit(model, data, out=tmp_path, quiet=True, observers=[Interrupter()])
    assert stopped.value.code == code
    assert signal.getsignal(number) is before
    assert checkpoint.latest(tmp_path / "checkpoints").state["step"] == 7
    assert RunFolder.open(tmp_path).info["status"] == "stopped"
    again = dc.resume(tmp_path, data, Classifier, quiet=True).model
    unbroken, _ = setting()
    dc.fit(unbroken, data, quiet=True)
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), unbroken.parameters(), strict=True))


def test_one_plain_line_per_epoch_where_no_terminal_is(capsys: pytest.CaptureFixture[str]) -> None:
    model, data = setting()
    dc.fit(model, data, epochs=4)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("epoch")]
    assert len(lines) == 4
    assert lines[3].startswith("epoch 4/4  step 20/20  cross_entropy ")
    assert "steps/s" in lines[0]
    assert "left" in lines[0]
    assert all(line.isprintable() for line in lines)


def test_a_bar_in_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    model, data = setting()
    dc.fit(model, data, epochs=4)
    said = capsys.readouterr().out
    assert "Classifier epoch 4/4" in said
    assert "steps/s" in said
    assert "100%" in said


@pytest.mark.slow
@pytest.mark.usefixtures("drawn")
def test_a_run_leaves_its_pictures(tmp_path: Path) -> None:
    model, batch = Classifier.example()
    dc.fit(model, dc.from_tensors(batch.x, batch.y), out=tmp_path / "run", quiet=True)
    drawn = {path.stem: path for path in RunFolder.open(tmp_path / "run").pictures.glob("*.png")}
    assert {"curves", "confusion"} <= drawn.keys()
    for path in drawn.values():
        with Image.open(path) as image:
            assert len(np.unique(np.asarray(image))) > 20, f"{path.name} shows nothing"


def test_what_learns_by_a_rule_has_no_learning_rate_in_its_log() -> None:
    model = dc.find("threshold_autoencoder")(features=4, latent=2)
    history = dc.fit(model, dc.from_tensors(torch.randn(20, 4)), quiet=True, epochs=2).history
    assert all("lr" not in record for record in history)


def test_the_log_tells_what_happened(tmp_path: Path) -> None:
    model, data = setting()
    result = dc.fit(model, data, out=tmp_path, quiet=True, schedule="linear", lr=0.02)
    records = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert all(len(record.pop("check")) == 16 for record in records)
    assert records == result.history == RunFolder.open(tmp_path).log()
    steps = [record for record in records if record["kind"] == "step"]
    assert [record["step"] for record in steps] == list(range(1, 16))
    assert steps[0]["lr"] == pytest.approx(0.02)
    assert steps[-1]["lr"] == pytest.approx(0.02 / 15)
    assert steps[-1]["terms"]["cross_entropy"] < steps[0]["terms"]["cross_entropy"]
    assert all(record["grad_norm"] > 0 and record["loss"] == record["terms"]["cross_entropy"] for record in steps)


def test_bf16_runs_under_autocast_and_keeps_float32_weights() -> None:
    model, data = setting()
    seen: set[torch.dtype] = set()
    model.last.register_forward_hook(lambda module, inputs, output: seen.add(output.dtype))
    dc.fit(model, data, quiet=True, precision="bf16")
    assert torch.bfloat16 in seen
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())


def test_the_deterministic_switch_is_given_back() -> None:
    model, data = setting()
    seen: list[bool] = []

    class Asker(Observer):
        def step(self, trainer: Trainer, terms: Terms) -> None:
            seen.append(torch.are_deterministic_algorithms_enabled())

    dc.fit(model, data, quiet=True, deterministic=True, observers=[Asker()])
    assert set(seen) == {True}
    assert not torch.are_deterministic_algorithms_enabled()


def test_progress_and_prepare() -> None:
    class Preparing(Toy):
        def __init__(self, features: int) -> None:
            super().__init__(features)
            self.prepared: list[int] = []
            self.shares: list[float] = []

        def prepare(self, data: Any) -> None:
            self.prepared.append(sum(len(batch) for batch in data))

        def loss(self, batch: Batch) -> Terms:
            self.shares.append(self.progress)
            return super().loss(batch)

    model = Preparing(2)
    dc.fit(model, dc.from_tensors(Toy.example()[1].x), quiet=True, steps=4)
    assert model.prepared == [32]
    assert model.shares[:4] == [0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epochs": 0}, "epochs must be a whole number"),
        ({"lr": -1.0}, "lr must be a positive number"),
        ({"lr": float("inf")}, "lr must be a positive number"),
        ({"seed": 10**30}, "seed must be a whole number"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"precision": "fp8"}, "precision"),
        ({"clip": "norm"}, "clip is written"),
        ({"clip": "norm:nan"}, "clip is written"),
        ({"schedule": "cosine:end=nan"}, "the number of an option is finite"),
        ({"batch_size_schedule": "linear:by=inf"}, "the number of an option is finite"),
        ({"device": "tpu9"}, "device"),
        ({"device": "meta"}, "the device 'meta' cannot be used"),
        ({"ema": 1.5}, "ema"),
        ({"momentum": 0.9}, "no setting 'momentum'"),
        ({"optimizer": "adan"}, "optimizer"),
        ({"schedule": "cosinus"}, "schedule"),
    ],
)
def test_wrong_settings_are_refused_with_a_sentence(settings: dict[str, Any], words: str) -> None:
    model, data = setting()
    with pytest.raises(UsageError, match=words):
        dc.fit(model, data, quiet=True, **settings)


def test_another_optimizer_brings_its_own_rate() -> None:
    assert resolve_settings(Recipe(lr=3e-4), optimizer="lbfgs")["lr"] == 1.0
    assert resolve_settings(Recipe(lr=3e-4), optimizer="adam:betas=0.5/0.9")["lr"] == 3e-4
    assert resolve_settings(Recipe(lr=3e-4), optimizer="lbfgs", lr=0.5)["lr"] == 0.5


def test_data_of_the_wrong_kind_are_refused() -> None:
    with pytest.raises(UsageError, match="Classifier learns from labeled examples; tensors gives examples"):
        dc.fit(Classifier(), dc.from_tensors(torch.zeros(8, 2)), quiet=True)


def test_after_fit_the_model_is_ready_for_use(tmp_path: Path) -> None:
    model, data = setting(dropout=0.5)
    dc.fit(model, data, quiet=True, out=tmp_path)
    assert torch.equal(model.predict(data.train.x, how="mean"), model.predict(data.train.x, how="mean"))
    assert not dc.resume(tmp_path, data, Classifier).model.training


class Surrogate(Classifier):
    """Its loss says nothing about its fit."""

    surrogate = True


def test_a_surrogate_is_watched_by_its_metrics_never_by_its_loss() -> None:
    _, data = setting()
    result = dc.fit(Surrogate(), data, quiet=True, patience=3)
    assert result.weights.startswith("best by validation accuracy")

    class Mute(Surrogate):
        def metrics(self, batch: Labeled) -> Terms:
            return {}

    with pytest.raises(UsageError, match="cannot watch 'a metric'"):
        dc.fit(Mute(), data, quiet=True, patience=3)


def test_what_is_refused_before_the_first_step_leaves_no_run(tmp_path: Path) -> None:
    class Picky(Classifier):
        def prepare(self, data: Any) -> None:
            raise UsageError("not these data")

    _, data = setting()
    folder = tmp_path / "run"
    with pytest.raises(UsageError, match="not these data"):
        dc.fit(Picky(), data, out=folder, quiet=True)
    with pytest.raises(UsageError, match="accurcy"):
        dc.fit(Classifier(), data, out=folder, quiet=True, watch="accurcy")
    assert not folder.exists()
    dc.fit(Classifier(), data, out=folder, quiet=True, epochs=1)


@pytest.mark.parametrize("moment", ["begin", "save", "commit"])
def test_a_run_killed_before_it_is_committed_is_in_no_ones_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    class Killed(BaseException):
        pass

    def kill(*_: Any, **__: Any) -> None:
        raise Killed

    _, data = setting()
    target = checkpoint if moment == "save" else RunFolder
    monkeypatch.setattr(target, moment, kill)
    with pytest.raises(Killed):
        dc.fit(Classifier(), data, out=tmp_path, quiet=True, epochs=1)
    monkeypatch.undo()
    dc.fit(Classifier(), data, out=tmp_path, quiet=True, epochs=1)
    assert RunFolder.open(tmp_path).info["status"] == "finished"


def test_two_trainings_cannot_share_a_folder(tmp_path: Path) -> None:
    _, data = setting()

    class Intruder(Observer):
        def step(self, trainer: Trainer, terms: Terms) -> None:
            if trainer.step == 2:
                with pytest.raises(UsageError, match="another process is training"):
                    dc.fit(Classifier(), data, out=tmp_path, overwrite=True, quiet=True, epochs=1)

    dc.fit(Classifier(), data, out=tmp_path, quiet=True, epochs=1, observers=[Intruder()])
    assert RunFolder.open(tmp_path).info["status"] == "finished"


def test_weights_that_burst_at_the_very_end_are_a_divergence(tmp_path: Path) -> None:
    class Burster(Observer):
        def step(self, trainer: Trainer, terms: Terms) -> None:
            if trainer.step == trainer.total:
                next(trainer.model.parameters()).data.fill_(torch.inf)

    _, data = setting()
    with pytest.raises(DivergenceError, match="not finite at step 5"):
        dc.fit(Classifier(), data, out=tmp_path, quiet=True, epochs=1, observers=[Burster()])
    assert RunFolder.open(tmp_path).info["status"] == "diverged"
    with pytest.raises(UsageError, match="it is diverged"):
        dc.load(tmp_path, Classifier)


def test_an_infinite_buffer_is_no_divergence(tmp_path: Path) -> None:
    class Masked(Classifier):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mask", torch.tensor([0.0, -torch.inf]))

    _, data = setting()
    assert dc.fit(Masked(), data, out=tmp_path, quiet=True, epochs=1).steps == 5


def test_freezing_ends_with_the_training_and_takes_one_pattern() -> None:
    model, data = setting()
    dc.fit(model, data, quiet=True, epochs=1, freeze="net.0.*")
    assert all(parameter.requires_grad for parameter in model.parameters())
