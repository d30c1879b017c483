"""The end of a training: whatever fails then, the weights are there, and the run can be measured and finished."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import deepcanon as dc
from deepcanon.core import EvaluationError, Labeled, UsageError
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.runs.folder import RunFolder

X = torch.randn(64, 2, generator=torch.Generator().manual_seed(0))
DATA = dc.from_tensors(X, (X.sum(1) > 0).long())


class Fragile(ToyClassifier):
    """A classifier whose predictions fail once it is trained, until it is mended."""

    mended = False

    def predict(self, *inputs: Tensor, how: Any = "mode", generator: Any = None) -> Tensor:
        if self.progress == 1 and not self.mended:
            raise ZeroDivisionError("a slip in predict")
        return super().predict(*inputs, how=how, generator=generator)


class Unpredictable(ToyClassifier):
    """A classifier whose predict was written without the contract in mind."""

    def predict(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return self.forward(x).argmax(-1)


def trained(**settings: Any) -> ToyClassifier:
    torch.manual_seed(0)
    model = ToyClassifier(2, 2)
    dc.fit(model, DATA, quiet=True, epochs=2, **settings)
    return model


def fragile() -> Fragile:
    torch.manual_seed(0)
    return Fragile(2, 2)


def test_an_evaluation_that_fails_loses_nothing_and_the_mended_run_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    with pytest.raises(
        EvaluationError,
        match=r"trained, and its weights are in .*model\.safetensors, but its evaluation failed: ZeroDivisionError: "
        r"a slip in predict \(test_finishing\.py, line \d+\); mend the cause and finish the run by: deepcanon resume",
    ):
        dc.fit(fragile(), DATA, out=out, quiet=True, epochs=2)
    expected = trained().state_dict()
    kept = dc.load(out, Fragile).state_dict()
    assert all(torch.equal(kept[name], weight) for name, weight in expected.items())
    run = dc.Run(out, Fragile)
    with pytest.raises(UsageError, match=r"has no results yet \(it is stopped\)"):
        run.scores  # noqa: B018
    monkeypatch.setattr(Fragile, "mended", True)
    measured = run.evaluate(DATA)["train"]
    finished = run.resume(DATA, quiet=True)
    assert finished.info["status"] == "finished"
    assert finished.scores["train"] == pytest.approx(measured)
    assert all(torch.equal(finished.model.state_dict()[name], weight) for name, weight in expected.items())


@pytest.mark.slow
@pytest.mark.usefixtures("drawn")
def test_pictures_that_fail_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("nothing to draw")

    with monkeypatch.context() as broken:
        broken.setattr("deepcanon.pictures.draw_run", fail)
        with pytest.raises(EvaluationError, match="its drawing failed: ValueError: nothing to draw"):
            trained(out=tmp_path)
    run = dc.Run(tmp_path, ToyClassifier)
    assert run.info["status"] == "stopped"
    scores = run.scores
    assert scores["train"]["accuracy"] == pytest.approx(run.evaluate(DATA)["train"]["accuracy"])
    finished = run.resume(DATA, quiet=True)
    assert (finished.info["status"], finished.scores) == ("finished", scores)
    assert (tmp_path / "pictures" / "confusion.png").is_file()


def test_the_weights_are_on_disk_before_anything_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []

    def look(*_: Any, **__: Any) -> None:
        seen.append(dict(RunFolder.open(tmp_path).info))
        dc.load(tmp_path, ToyClassifier)
        raise KeyboardInterrupt

    monkeypatch.setattr("deepcanon.train.finishing.examine_at_end", look)
    with pytest.raises(KeyboardInterrupt):
        trained(out=tmp_path)
    assert [info["status"] for info in seen] == ["running"]  # a run killed here is finished by resume


def test_without_a_folder_the_weights_are_in_the_model() -> None:
    model = fragile()
    with pytest.raises(EvaluationError, match="its weights are in it, but its evaluation failed"):
        dc.fit(model, DATA, quiet=True, epochs=2)
    assert all(torch.equal(model.state_dict()[name], weight) for name, weight in trained().state_dict().items())


def test_a_predict_without_how_is_refused_before_the_training(tmp_path: Path) -> None:
    model = Unpredictable(2, 2)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    with pytest.raises(UsageError, match=r"Unpredictable\.predict cannot be called as predict\(inputs, how=\.\.\.\)"):
        dc.fit(model, DATA, out=tmp_path / "run", quiet=True, epochs=2)
    assert all(torch.equal(model.state_dict()[name], weight) for name, weight in before.items())
    assert not (tmp_path / "run").exists()


def test_what_cannot_be_measured_on_validation_data_is_known_before_the_first_epoch() -> None:
    class Late(ToyClassifier):
        steps = 0

        def loss(self, batch: Labeled) -> Any:
            Late.steps += self.training
            return super().loss(batch)

        def predict(self, *inputs: Tensor, how: Any = "mode", generator: Any = None) -> Tensor:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        dc.fit(Late(2, 2), dc.from_tensors(X, DATA.train.y, valid=(X, DATA.train.y)), quiet=True, epochs=1)
    assert Late.steps == 0
