from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import deepcanon as dc
from deepcanon.core import DivergenceError
from deepcanon.diagnosis import thresholds
from deepcanon.diagnosis.during_training import Doctor
from deepcanon.diagnosis.vital_signs import Units


def trained(model: Any, observers: list[Any], **settings: Any) -> Any:
    torch.manual_seed(0)
    return dc.fit(model, dc.load_data("digits"), quiet=True, evaluate=False, observers=observers, **settings)


def mlp(**arguments: Any) -> Any:
    torch.manual_seed(0)
    return dc.models.MLP(64, 10, **arguments)


def always() -> Doctor:
    """A doctor who looks at every other step, however long that takes."""
    return Doctor(share=1e9)


@pytest.mark.slow
def test_a_training_that_is_watched_has_the_bits_of_one_that_is_not() -> None:
    for model in (lambda: mlp(hidden=(32, 32)), lambda: dc.models.VAE(64, hidden=(16,)), lambda: dc.models.GAN(64)):
        states = []
        for observers in ([], [always()]):
            torch.manual_seed(0)
            states.append(trained(model(), observers, epochs=2).model.state_dict())
        assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert observers[0].looks > 5


def test_a_healthy_training_is_left_alone() -> None:
    doctor = always()
    trained(mlp(), [doctor], epochs=10)
    assert doctor.findings == []


@pytest.mark.slow
def test_what_is_ill_is_said_once_with_its_cause() -> None:
    said: list[str] = []
    doctor = Doctor(said.append, share=1e9)
    trained(mlp(hidden=(32,) * 8, activation="sigmoid"), [doctor], epochs=20)
    assert [finding.cause for finding in doctor.findings] == ["vanishing gradients"]
    assert len(said) == 1
    assert "the doctor at step" in said[0]


def test_units_that_are_dead_are_named_with_their_layer() -> None:
    model = mlp(hidden=(32, 32))
    with torch.no_grad():
        model.net[0].bias.sub_(100)
    doctor = always()
    trained(model, [doctor], epochs=20, lr=1e-5)
    assert doctor.findings[0].cause == "dead units"
    assert doctor.findings[0].where == "net.1"


def test_updates_that_are_too_small_are_named() -> None:
    doctor = always()
    trained(mlp(), [doctor], epochs=10, lr=1e-8)
    assert [finding.cause for finding in doctor.findings] == ["updates too small"]


def test_a_training_too_short_for_many_looks_is_judged_at_its_end() -> None:
    doctor = Doctor(share=0.0)
    with pytest.raises(DivergenceError):
        trained(mlp(), [doctor], epochs=2, optimizer="sgd", lr=1e5)
    assert [finding.cause for finding in doctor.findings] == ["the loss blows up"]
    few = always()
    trained(mlp(), [few], steps=40, lr=1e-8)
    assert [finding.cause for finding in few.findings] == ["updates too small"]


def test_values_that_are_not_finite_are_named_before_the_training_ends() -> None:
    class Poison(dc.Observer):
        def step(self, trainer: Any, terms: Any) -> None:
            if trainer.step == 6:
                with torch.no_grad():
                    trainer.model.net[0].weight[0, 0] = float("nan")

    doctor = always()
    with pytest.raises(DivergenceError):
        trained(mlp(), [Poison(), doctor], epochs=5)
    assert doctor.findings[0].cause == "non-finite values"
    assert doctor.findings[0].where == "net.0.weight"


def test_looking_stays_within_its_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("deepcanon.diagnosis.during_training.time.perf_counter", lambda: clock[0])
    doctor = Doctor(share=0.02)

    def look(trainer: Any) -> None:
        clock[0] += 0.1  # as long as ten steps take
        doctor.looks += 1
        doctor._before = {}

    monkeypatch.setattr(doctor, "_look", look)
    monkeypatch.setattr(doctor, "_prepare", lambda trainer: doctor._before.update(held=torch.zeros(1)))
    for _ in range(10_000):
        clock[0] += 0.01
        doctor.step(None, {})  # type: ignore[arg-type]
        assert doctor.looks == 1 or doctor.spent <= 0.02 * clock[0]  # what the first one costs is not known before
    assert doctor.looks > 10


def test_it_goes_on_after_a_resume_as_if_nothing_had_happened(tmp_path: Path) -> None:
    class Stop(dc.Observer):
        def step(self, trainer: Any, terms: Any) -> None:
            if trainer.step == 30:
                raise KeyboardInterrupt

    first, second = always(), always()
    with pytest.raises(KeyboardInterrupt):
        dc.Run.train("mlp", "digits", out=tmp_path / "r", epochs=6, checkpoint_every=20, quiet=True,
                     pictures=False, observers=[first, Stop()])  # fmt: skip
    dc.Run(tmp_path / "r").resume(quiet=True, observers=[second])
    assert 0 < first.looks < second.looks
    whole = dc.Run.train("mlp", "digits", out=tmp_path / "s", epochs=6, quiet=True, pictures=False).model.state_dict()
    resumed = dc.Run(tmp_path / "r").model.state_dict()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_dead_units_are_counted_over_all_batches() -> None:
    units, layer = Units(), torch.nn.ReLU()
    units.see("a", layer, torch.tensor([[1.0, 0.0, 0.0, 0.0]] * 600))
    units.see("a", layer, torch.tensor([[0.0, 1.0, 0.0, 0.0]] * 600))
    assert units.dead(1000) == {"a": 0.5}
    assert units.dead(2000) == {}
    units.see("b", torch.nn.Sigmoid(), torch.tensor([[0.999, 0.5], [0.001, 0.5]]))
    assert units.at_ends() == {"b": 0.5}
    again = Units()
    again.restore(json.loads(json.dumps({**units.state(), "alive": {}})))
    assert again.at_ends() == {"b": 0.5}


def test_a_divergence_that_is_the_whole_loss_is_not_one_of_latents() -> None:
    random = torch.Generator().manual_seed(0)
    x = torch.cat([center + 0.1 * torch.randn(20, 4, generator=random) for center in (0.0, 20.0, 40.0)])
    torch.manual_seed(0)
    doctor = always()
    embedding = dc.models.TSNE(features=4, examples=60, perplexity=10.0)
    result = dc.fit(embedding, dc.from_tensors(x), steps=200, quiet=True, evaluate=False, observers=[doctor])
    assert result.history[-1]["terms"]["kl"] < thresholds.of("during_training", "kl").low
    assert doctor.looks > 5
    assert doctor.findings == []
