from __future__ import annotations

import copy
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import Adam, Optimizer

import deepcanon as dc
from deepcanon.core import UsageError
from deepcanon.diagnosis.doctor import STAGES, checks, explain
from tests.diagnosis.checks.plain import CLASSES, CROSS_ENTROPY, X, adam, net, sgd


def states(model: nn.Module, optimizer: Optimizer) -> list[Any]:
    """All that a training could change, as values to compare."""
    weights = [tensor.clone() for tensor in model.state_dict().values()]
    gradients = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    moments = [value.clone() for state in optimizer.state.values() for value in state.values()]
    return [*weights, *gradients, *moments]


def same(one: list[Any], other: list[Any]) -> bool:
    pairs = zip(one, other, strict=True)
    return all(a is b is None or (a is not None and b is not None and torch.equal(a, b)) for a, b in pairs)


@pytest.mark.slow
@pytest.mark.parametrize("reaching", [False, True])
def test_nothing_of_the_users_is_changed(reaching: bool) -> None:
    """Not even by a step that trains the model it closes over, in place of the copy that it is given."""
    model = nn.Sequential(nn.Linear(10, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3)).train()
    model[3].eval()
    optimizer = Adam(model.parameters(), lr=1e-2)
    CROSS_ENTROPY(model(X[:32]), CLASSES[:32]).backward()
    optimizer.step()

    def step(given: nn.Module, its: Optimizer, batch: Any) -> None:
        trained, moved = (model, optimizer) if reaching else (given, its)
        moved.zero_grad()
        CROSS_ENTROPY(trained(batch.x), batch.y).backward()
        moved.step()

    before, modes = states(model, optimizer), [module.training for module in model.modules()]
    x, y = X.clone(), CLASSES.clone()
    drawn = torch.get_rng_state(), np.random.get_state(legacy=False)["state"]["key"].copy(), random.getstate()  # noqa: NPY002
    dc.doctor(model, (x, y), step=step, optimizer=optimizer, budget=3)
    assert same(states(model, optimizer), before)
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(x, X)
    assert torch.equal(y, CLASSES)
    assert torch.equal(torch.get_rng_state(), drawn[0])
    assert np.array_equal(np.random.get_state(legacy=False)["state"]["key"], drawn[1])  # noqa: NPY002
    assert random.getstate() == drawn[2]


@pytest.mark.slow
def test_a_model_of_the_catalogue_is_left_as_it_is() -> None:
    data = dc.load_data("moons")
    model = dc.models.MLP(features=2, classes=2)
    before = copy.deepcopy(model.state_dict())
    report = dc.doctor(model, data, budget=3)
    assert report.healthy
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_healthy_training_gives_no_finding_and_says_what_was_done() -> None:
    model = net()
    report = dc.doctor(model, (X, CLASSES), loss=CROSS_ENTROPY, optimizer=adam(model))
    assert list(report) == []
    assert str(report).startswith("nothing found: ")
    assert set(report.passed) | set(report.skipped) == {check.name for check in checks()}


def test_the_cause_speaks_and_what_it_explains_is_not_examined() -> None:
    model = nn.Sequential(net(), nn.Softmax(1))
    report = dc.doctor(model, (X, CLASSES), loss=CROSS_ENTROPY, optimizer=adam(model))
    (found,) = report
    assert found.cause == "softmax before cross-entropy"
    assert found.check == "output_and_loss"
    assert str(found).startswith("Softmax before cross-entropy (end of the model): ")
    assert report.skipped["learning_rate"] == "softmax before cross-entropy explains what it would see"


@pytest.mark.slow
def test_a_thorough_examination_folds_symptoms_under_their_cause() -> None:
    model = net()
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    report = dc.doctor(model, (X, CLASSES), loss=CROSS_ENTROPY, optimizer=adam(model), thorough=True, budget=20)
    (found,) = report
    assert found.cause == "symmetric start"
    assert any("bad initialization" in each for each in found.explains)


def test_a_budget_ends_the_examination() -> None:
    model = net()
    report = dc.doctor(model, (X, CLASSES), loss=CROSS_ENTROPY, optimizer=adam(model), budget=1e-6)
    assert set(report.skipped.values()) == {"the budget was spent"}


@pytest.mark.slow
def test_the_report_is_saved_whole(tmp_path: Any) -> None:
    model = net()
    report = dc.doctor(model, (X, CLASSES), loss=CROSS_ENTROPY, optimizer=sgd(model, 10.0))
    numbers, page = report.save(tmp_path)
    content = page.read_text()
    assert '"learning rate too high"' in numbers.read_text()
    assert "<polyline" in content
    assert "http://" not in content.replace("http://www.w3.org", "")
    assert "src=" not in content
    with pytest.raises(UsageError, match="overwrite"):
        report.save(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "give one, loss="),
        ({"loss": nn.CrossEntropyLoss}, "loss is a function"),
        ({"loss": CROSS_ENTROPY, "optimizer": 3}, "optimizer is a torch optimizer"),
        ({"loss": CROSS_ENTROPY, "budget": 0}, "budget is a number of seconds"),
        ({"loss": CROSS_ENTROPY, "pace": 1}, "no setting 'pace'"),
    ],
)
def test_wrong_usage_is_refused_in_a_sentence(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        dc.doctor(net(), (X, CLASSES), **arguments)


def test_a_model_that_cannot_be_copied_is_refused() -> None:
    class Single(nn.Sequential):
        def __deepcopy__(self, memo: dict[int, Any]) -> Single:
            raise TypeError("there is one of it")

    with pytest.raises(UsageError, match=r"copy\.deepcopy"):
        dc.doctor(Single(net()), (X, CLASSES), loss=CROSS_ENTROPY)


def test_every_check_has_a_stage_and_an_explanation() -> None:
    for check in checks():
        assert check.stage in STAGES
        assert len(explain(check.name.replace("_", "-")).splitlines()) > 3
    with pytest.raises(UsageError, match="did you mean"):
        explain("learning_rte")


def test_a_module_of_all_rows_at_once_is_examined_as_a_whole() -> None:
    """A graph network that holds its edges takes all nodes, in their order, and no part of them."""

    class Nodes(nn.Module):
        def __init__(self, end: nn.Module) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.register_buffer("edges", torch.eye(40) * 0.5 + torch.eye(40).roll(3, 0) * 0.5)
            self.one, self.two, self.end = nn.Linear(10, 16), nn.Linear(16, 3), end

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.end(self.edges @ self.two((self.edges @ self.one(x)).relu()))
            return out

    for end, wanted in ((nn.Identity(), []), (nn.Softmax(1), ["softmax before cross-entropy"])):
        report = dc.doctor(Nodes(end), (X[:40], torch.arange(40) % 3), loss=CROSS_ENTROPY, optimizer="adam", lr=0.01)
        assert [finding.cause for finding in report] == wanted
        assert not any("could not" in reason for reason in report.skipped.values()), report.skipped


@pytest.mark.parametrize("model", ["mlp", "vae"])
def test_nan_in_the_arrays_of_a_model_of_the_catalogue_is_named(model: str) -> None:
    x = X.clone()
    x[3, 2] = torch.nan
    report = dc.doctor(model, (x, CLASSES) if model == "mlp" else x, budget=5)
    assert [finding.cause for finding in report] == ["non-finite inputs"]


@pytest.mark.slow
def test_options_say_how_a_file_is_read(tmp_path: Any) -> None:
    rows = [f"{a:.3f},{b:.3f},{'yes' if a > b else 'no'}" for a, b in X[:120, :2].tolist()]
    file = tmp_path / "table.csv"
    file.write_text("\n".join(["a,b,kind", *rows]))
    assert dc.doctor("logistic_regression", file, target="kind", budget=5).healthy
    with pytest.raises(UsageError, match="leave it out"):
        dc.doctor("mlp", (X, CLASSES), target="kind")
