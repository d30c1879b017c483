"""Scores of predictions of a whole split: what scikit-learn computes, on unequal classes, with ties, over batches."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sklearn import metrics

import deepcanon as dc
from deepcanon.core import Labeled, LabeledSequences
from deepcanon.train import evaluate
from deepcanon.train.evaluation import assess
from deepcanon.train.scores import Predicted, gather


def guesses(count: int, classes: int, *, ties: bool, seed: int = 0) -> Predicted:
    """Probabilities of unequal classes that are right more often than not; ``ties`` are many equal ones."""
    generator = torch.Generator().manual_seed(seed)
    true = torch.multinomial(0.3 ** torch.arange(classes).double(), count, replacement=True, generator=generator)
    logits = torch.randn(count, classes, generator=generator, dtype=torch.float64)
    logits[torch.arange(count), true] += 1
    return Predicted((logits.round() if ties else logits).softmax(1), true)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("classes", [2, 4])
def test_scores_of_classes_are_those_of_scikit_learn(classes: int, ties: bool) -> None:
    predicted = guesses(500, classes, ties=ties)
    shares, true = predicted.mean.numpy(), predicted.true.numpy()
    mode = predicted.mean.argmax(1).numpy()
    present = sorted(set(true.tolist()))
    one_hot = (true[:, None] == present).astype(int)
    assert len(present) == classes
    assert predicted.scores() == pytest.approx(
        {
            "balanced_accuracy": metrics.balanced_accuracy_score(true, mode),
            "f1": metrics.f1_score(true, mode, average="macro"),
            "roc_auc": metrics.roc_auc_score(one_hot, shares, average="macro"),
            "pr_auc": metrics.average_precision_score(one_hot, shares, average="macro"),
        }
    )
    each = predicted.by_class
    precision, recall, f1, examples = metrics.precision_recall_fscore_support(true, mode, zero_division=0)
    assert [scores["recall"] for scores in each] == pytest.approx(recall)
    assert [scores["precision"] or 0.0 for scores in each] == pytest.approx(precision)
    assert [scores["f1"] for scores in each] == pytest.approx(f1)
    assert [scores["examples"] for scores in each] == examples.tolist()


def test_a_class_without_examples_counts_in_no_mean() -> None:
    predicted = guesses(200, 3, ties=False)
    held = predicted.true != 2
    some = Predicted(predicted.mean[held], predicted.true[held])
    assert some.by_class[2]["recall"] is None
    assert some.scores()["balanced_accuracy"] == pytest.approx(
        metrics.recall_score(some.true, some.mean.argmax(1), labels=[0, 1], average="macro")
    )
    alone = Predicted(torch.tensor([[0.9, 0.1]]), torch.tensor([0]))
    assert alone.scores() == {"balanced_accuracy": 1.0, "f1": 1.0}  # no curve of one class


def test_scores_of_targets_are_those_of_scikit_learn() -> None:
    generator = torch.Generator().manual_seed(0)
    true = torch.randn(50, 1, generator=generator, dtype=torch.float64)
    mean = true + 0.5 * torch.randn(50, 1, generator=generator, dtype=torch.float64)
    assert Predicted(mean, true).scores() == pytest.approx(
        {"rmse": metrics.root_mean_squared_error(true, mean), "r2": metrics.r2_score(true, mean)}
    )
    assert "r2" not in Predicted(mean, torch.ones(50, 1, dtype=torch.float64)).scores()


def test_an_evaluation_scores_all_predictions_at_once_not_batch_by_batch() -> None:
    """All examples of the rare class are in the last batch: a mean over batches would be another number."""
    torch.manual_seed(0)
    model: Any = dc.find("mlp")(features=3, classes=2).eval()
    y = (torch.arange(100) >= 97).long()
    batch = Labeled(torch.randn(100, 3), y)
    whole, parts = evaluate(model, batch), evaluate(model, batch, size=10)
    shares = model.predict(batch.x, how="mean")
    assert whole["roc_auc"] == pytest.approx(metrics.roc_auc_score(y, shares[:, 1]), abs=1e-6)
    assert parts == pytest.approx(whole, abs=1e-6)
    assert assess(model, batch).by_class[1]["examples"] == 3
    assert "roc_auc" not in assess(model, batch, predictions=False).scores


def test_labels_at_every_position_and_of_some_nodes_are_those_that_count() -> None:
    model, batch = dc.find("lstm_predictor").example()
    tagger = dc.find("lstm_predictor")(features=2, classes=2, every_position=True)
    sequences = LabeledSequences(torch.randn(2, 4, 2), torch.ones(2, 4).long(), torch.tensor([4, 1]))
    assert (found := gather(tagger.eval(), sequences)) is not None
    assert found.mean.shape == (5, 2)
    nodes, graph = dc.find("gcn").example()
    assert (found := gather(nodes.eval(), graph)) is not None
    assert len(found.true) == len(found.mean) == int(graph.mask.sum())
    assert gather(model.eval(), batch) is not None
