"""The health of a training: the best weights are kept, the baseline is named, and what is wrong is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

import deepcanon as dc
from deepcanon.core import Labeled, LabeledSequences, Model, SemiBatch, Terms, UsageError
from deepcanon.data import Dataset
from deepcanon.runs.folder import RunFolder
from deepcanon.train import Observer, Trainer
from deepcanon.train.class_weights import class_weights
from deepcanon.train.evaluation import MOST_EVALUATED
from deepcanon.train.health import against_baseline, missed_classes
from deepcanon.train.settings import resolve_settings, settings_of


def by_chance(count: int = 60, *, targets: bool = False) -> Dataset[Any]:
    """Labels or targets that no feature says anything about: what is learned of them is overfitting."""
    generator = torch.Generator().manual_seed(0)

    def part() -> Labeled:
        x = torch.randn(count, 5, generator=generator)
        y = torch.randn(count, 1, generator=generator) if targets else (torch.rand(count, generator=generator) < 0.3)
        return Labeled(x, y if targets else y.long())

    train = part()
    return replace(dc.from_tensors(train.x, train.y), valid=part(), test=part())


def trained(data: Dataset[Any], name: str = "mlp", seed: int = 0, **settings: Any) -> Any:
    torch.manual_seed(seed)
    sizes = {name: size for name, size in data.sizes.items() if name != "length"}
    model = dc.find(name)(**sizes)
    return dc.fit(model, data, **{"quiet": True, "epochs": 20, "lr": 0.02, **settings})


def test_the_best_weights_are_kept_by_default_and_the_last_on_request() -> None:
    data = by_chance()
    best, last = trained(data), trained(data, keep_weights="last")
    curve = [record["valid"]["nll"] for record in best.history if record["kind"] == "epoch"]
    step = [record["step"] for record in best.history if record["kind"] == "epoch"][curve.index(min(curve))]
    assert best.weights == f"best by validation nll, of step {step}"
    assert best.valid["nll"] == pytest.approx(min(curve), abs=1e-6)
    assert last.weights == "last"
    assert last.valid["nll"] == pytest.approx(curve[-1], abs=1e-6)
    assert curve[-1] > 1.2 * min(curve)
    alone = trained(replace(data, valid=None))  # without validation data nothing is held out, and nothing chooses
    assert alone.weights == "last"
    assert torch.equal(next(alone.model.parameters()), next(last.model.parameters()))


def test_overfitting_is_said_with_its_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    data = by_chance()
    best, last = trained(data), trained(data, keep_weights="last")
    curve = [record["valid"]["nll"] for record in best.history if record["kind"] == "epoch"]
    at = best.weights.rpartition(" ")[2]
    told = f"Validation nll was best at step {at} of 20 and rose from {min(curve):.4g} to {curve[-1]:.4g} since"
    assert best.course == [f"{told}; the weights of step {at} are kept."]
    assert last.course == [f"{told}; the last weights are kept."]
    watched = trained(data, watch="accuracy")
    assert all("fell from" in sentence for sentence in watched.course)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(300, 5, generator=generator)
    easy = Labeled(x, (x[:, 0] > 0).long())
    healthy = trained(replace(dc.from_tensors(easy.x, easy.y), valid=easy, test=easy))
    assert healthy.course == []
    assert capsys.readouterr().out == ""
    loud = trained(data, quiet=False)
    assert capsys.readouterr().out.splitlines()[20:] == [*loud.says, *loud.course]  # after a line for each epoch
    assert healthy.says[0].startswith("mlp beats the class prior: test nll ")


def test_a_model_that_does_not_beat_its_baseline_is_told_so() -> None:
    regression = trained(by_chance(targets=True), keep_weights="last")
    assert regression.baseline is not None
    assert regression.test["rmse"] > regression.baseline["test"]["rmse"]
    assert regression.says == [
        f"mlp does not beat the mean of the training targets: test rmse {regression.test['rmse']:.4g} against "
        f"{regression.baseline['test']['rmse']:.4g}; what it has learned is of no use on new data."
    ]
    broken = {"test": {"nll": float("nan")}}
    prior: Any = {"name": "the class prior", "train": {}, "valid": {}, "test": {"nll": 0.5}}
    settings = resolve_settings(dc.find("mlp").recipe)
    assert "does not beat the class prior" in against_baseline("mlp", broken, prior, settings)[0]


def test_a_class_of_which_nothing_is_found_is_named() -> None:
    rare: Any = [{"examples": 900, "found": 900}, {"examples": 63, "found": 0}, {"examples": 0, "found": 0}]
    assert missed_classes(rare, ("legit", "fraud", "none"), "test") == [
        "It finds none of the 63 test examples of the class 'fraud'."
    ]


def test_a_resumed_run_keeps_the_weights_that_an_unbroken_one_keeps(tmp_path: Path) -> None:
    """It is broken off after its best step, so that the best weights must have been in the checkpoint."""
    data = by_chance()

    class Fault(Observer):
        def step(self, trainer: Trainer, terms: Terms) -> None:
            if trainer.step == 15:
                raise RuntimeError("broken off")

    whole = trained(data, out=tmp_path / "whole", checkpoint_every=4)
    with pytest.raises(RuntimeError, match="broken off"):
        trained(data, out=tmp_path / "broken", checkpoint_every=4, observers=[Fault()])
    again = dc.resume(tmp_path / "broken", data, quiet=True)
    one, two = (RunFolder.open(tmp_path / name).info for name in ("whole", "broken"))
    assert int(one["weights"].rpartition(" ")[2]) < 12
    assert one["sha256"] == two["sha256"]
    assert one["weights"] == two["weights"]
    assert again.course == whole.course != []
    assert {**one["results"], "seconds": 0} == {**two["results"], "seconds": 0}
    assert dc.resume(tmp_path / "broken", data).says == whole.says


def test_weights_from_before_the_last_phase_are_not_the_model() -> None:
    """The network is best before nearly all of it is pruned; what is kept is pruned all the same."""
    x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    rows = Labeled(x, (x[:, 0] * x[:, 1] > 0).long())
    torch.manual_seed(0)
    pruned: Any = dc.find("pruning")(dc.find("mlp")(features=2, classes=2), sparsity=0.99, restart="none")
    result = dc.fit(pruned, replace(dc.from_tensors(rows.x, rows.y), valid=rows), quiet=True, epochs=20, lr=0.02)
    curve = [record["valid"]["nll"] for record in result.history if record["kind"] == "epoch"]
    assert curve.index(min(curve)) < 10
    assert result.valid["sparsity"] == pytest.approx(0.99, abs=0.005)
    assert result.valid["nll"] == pytest.approx(min(curve[10:]), abs=1e-6)


@pytest.mark.parametrize("name", ["logistic_regression", "softmax_regression", "gan", "fixmatch"])
def test_where_the_end_is_the_model_the_last_weights_are_kept(name: str) -> None:
    """The optimum of a convex loss, a loss that does not measure fit, and labels too few to choose by others."""
    data = by_chance()
    if name == "gan":
        model: Model[Any] = dc.find("gan")(features=5, hidden=(8,))
    elif name == "fixmatch":
        model = dc.find("fixmatch")(dc.find("mlp")(features=5, classes=2))
        data = replace(data, train=SemiBatch(data.train.x[:10], data.train.y[:10], data.train.x))
    else:
        model = dc.find(name)(features=5, classes=2)
    assert dc.fit(model, data, quiet=True, epochs=3).weights == "last"


def test_a_run_from_before_the_setting_keeps_its_last_weights(tmp_path: Path) -> None:
    trained(by_chance(), out=tmp_path, epochs=1)
    info = RunFolder.open(tmp_path).info
    del info["settings"]["keep_weights"], info["settings"]["class_weight"]
    settings = settings_of(info)
    assert (settings["keep_weights"], settings["class_weight"]) == ("last", None)
    with pytest.raises(UsageError, match="keep_weights"):
        trained(by_chance(), keep_weights="lats")


def test_validation_on_the_way_costs_no_more_than_the_epoch() -> None:
    """Far more validation than training data: a sample of them is gone through, always the same."""
    small, large = by_chance(20), by_chance(3 * MOST_EVALUATED)
    seen: list[tuple[int, float]] = []

    class Counting(dc.find("mlp")):  # type: ignore[misc]
        def evaluated(self, batch: Labeled) -> Any:
            seen.append((len(batch), float(batch.x.sum())))
            return super().evaluated(batch)

    dc.fit(Counting(features=5, classes=2), replace(small, valid=large.train), quiet=True, epochs=2)
    assert seen.pop(0)[0] == 2  # before the training, to see whether they can be measured
    on_the_way, parts = seen[:4], [count for count, _ in seen]
    assert parts[:4] == [1024] * 4
    assert on_the_way[:2] == on_the_way[2:]
    assert sum(parts[4:]) == 20 + 3 * MOST_EVALUATED + 20  # at the end all of them


def imbalanced() -> Labeled:
    x, y = make_classification(
        n_samples=600, n_features=4, n_informative=3, n_redundant=0, weights=[0.93], class_sep=0.7, random_state=0
    )
    return Labeled(torch.from_numpy(x), torch.from_numpy(y).long())


def test_class_weights_give_the_optimum_of_scikit_learn() -> None:
    rows = imbalanced()
    model: Any = dc.find("logistic_regression")(features=4).double()
    data = replace(dc.from_tensors(rows.x, rows.y), test=rows)
    plain = dc.fit(dc.find("logistic_regression")(features=4).double(), data, quiet=True)
    result = dc.fit(model, data, quiet=True, class_weight="balanced")
    oracle = LogisticRegression(C=1e8, class_weight="balanced", tol=1e-10, max_iter=10_000).fit(rows.x, rows.y)
    assert model.linear.weight.detach().numpy() == pytest.approx(oracle.coef_, abs=1e-3)
    assert model.linear.bias.item() == pytest.approx(oracle.intercept_[0], abs=1e-3)
    rare = result.by_class["test"][1], plain.by_class["test"][1]
    assert rare[0]["found"] > rare[0]["examples"] / 2
    assert rare[1]["found"] < rare[1]["examples"] / 10
    assert result.test["balanced_accuracy"] > plain.test["balanced_accuracy"] + 0.05
    unweighted = torch.nn.functional.cross_entropy(model(rows.x), rows.y).item()
    assert result.test["nll"] == pytest.approx(unweighted)
    assert "balanced_accuracy" in result.says[0]  # its probabilities are not those of the data
    again = dc.fit(model, data, quiet=True, epochs=1)
    assert again.history[0]["terms"].keys() == {"nll"}  # the weights end with their training


@pytest.mark.parametrize("name", ["mlp", "cnn", "gcn", "lstm_predictor", "graph_classifier", "link_predictor"])
def test_every_engine_of_classifiers_weighs_them_in_training_and_measures_without(name: str) -> None:
    torch.manual_seed(0)
    model, batch = dc.find(name).example()
    plain = {key: value.detach() for key, value in model.eval().loss(batch).items()}
    model.class_weight = torch.arange(1.0, model.hparams["classes"] + 1)
    torch.testing.assert_close({key: value.detach() for key, value in model.eval().loss(batch).items()}, plain)
    loss = model.train().loss(batch)
    assert "weighted_nll" in loss
    assert "nll" not in loss


@pytest.mark.slow
@torch.no_grad()
def test_weighted_losses_of_unequal_batches_add_up_to_those_of_torch() -> None:
    """Also with label smoothing, and at every position of sequences."""
    torch.manual_seed(0)
    weight, y = torch.tensor([0.5, 3.0]), (torch.rand(30) < 0.2).long()
    network: Any = dc.find("mlp")(features=4, classes=2)
    images: Any = dc.find("resnet")(channels=1, height=8, width=8, classes=2, smoothing=0.2)
    tagger: Any = dc.find("lstm_predictor")(features=2, classes=2, every_position=True)
    tags = LabeledSequences(torch.randn(30, 5, 2), (torch.rand(30, 5) < 0.2).long(), torch.arange(30) % 5 + 1)
    for model, batch in (
        (network, Labeled(torch.randn(30, 4), y)),
        (images, Labeled(torch.randn(30, 1, 8, 8), y)),
        (tagger, tags),
    ):
        model.eval().training = True  # the layers inside stay as they are, so that examples do not depend on others
        model.class_weight = weight
        whole = sum(map(float, model.loss(batch).values()))
        parts = [batch.select(torch.arange(*ends)) for ends in ((0, 7), (7, 30))]
        sums = [sum(map(float, model.loss(part).values())) * model.weight_of(part) for part in parts]
        assert sum(sums) / model.weight_of(batch) == pytest.approx(whole, rel=1e-5)
        if batch is not tags:
            smooth, logits = getattr(model, "smoothing", 0.0), model(*batch.inputs)
            each = torch.nn.functional.cross_entropy(logits, y, reduction="none", label_smoothing=smooth)
            assert whole == pytest.approx(float((each * weight[y]).mean()), rel=1e-5)


def test_class_weights_are_read_and_refused() -> None:
    rows = imbalanced()
    weights = class_weights("balanced", rows, 2)
    assert float(weights[rows.y].mean()) == pytest.approx(1.0)
    assert class_weights("1/20", rows, 2).tolist() == [1.0, 20.0]
    for wrong in ("1", "1/-2", "often", "1/2/3", "1/nan"):
        with pytest.raises(
            UsageError, match=r"class_weight is balanced, or a positive number for each of the 2 classes"
        ):
            class_weights(wrong, rows, 2)
    with pytest.raises(UsageError, match=r"linear_regression does not learn by the cross-entropy"):
        trained(by_chance(targets=True), "linear_regression", class_weight="balanced")
    with pytest.raises(UsageError, match=r"svm does not learn by the cross-entropy"):
        trained(by_chance(), "svm", class_weight="balanced")


def test_any_score_of_predictions_can_be_watched() -> None:
    rows = imbalanced()
    data = replace(dc.from_tensors(rows.x.float(), rows.y), valid=Labeled(rows.x.float(), rows.y))
    result = trained(data, watch="roc_auc", epochs=4)
    curve = [record["valid"]["roc_auc"] for record in result.history if record["kind"] == "epoch"]
    assert result.valid["roc_auc"] == pytest.approx(max(curve), abs=1e-6)
    weighted = trained(data, class_weight="balanced", epochs=2)
    assert weighted.weights.startswith("best by validation balanced_accuracy")
    with pytest.raises(UsageError, match="cannot watch 'r2'"):
        trained(data, watch="r2")
