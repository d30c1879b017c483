"""Tables: forms are never mixed, bounds are never ranked without a word, dashes where there is no number."""

from __future__ import annotations

from typing import Any

import pytest

from deepcanon.comparison.job import Comparison, Entry
from deepcanon.comparison.measures import Likelihood, Measured
from deepcanon.comparison.sentences import conclusions, remarks, title
from deepcanon.comparison.support import Form
from deepcanon.comparison.tables import ACCURACY, COPIES, DASH, LOG_LOSS, NATS, SPEED, TWO_SAMPLE, failures, sections


def measured(likelihood: Likelihood | None = None, **changes: Any) -> Measured:
    whole: Measured = {
        "parameters": 3, "buffers": 0, "steps": 10, "planned": 10, "seconds": 1.0, "weights": "last", "watch": None,
        "test": {}, "metrics": [], "likelihood": likelihood, "drawn": None, "predictions": None,
    }  # fmt: skip
    return {**whole, **changes}  # type: ignore[typeddict-item]


def likelihood(nats: float, kind: str = "exact", tighter: float | None = None, given: str | None = None) -> Likelihood:
    return {
        "nats": nats,
        "kind": kind,
        "given": given,
        "per": "example",
        "error": 0.0,
        "tighter": tighter,
        "samples": 64 if tighter else None,
        "bits": None,
    }


def drawn(two_sample: float, copies: float = 0.05) -> dict[str, Any]:
    quality = {"two_sample": two_sample, "precision": 0.5, "coverage": 0.5, "copies": copies}
    return {"per_second": 100.0, "quality": quality}


def entry(label: str, value: Measured | None, form: Form = "plain", seed: int = 0, error: str | None = None) -> Entry:
    return {
        "label": label, "model": label, "form": form, "data": "d", "seed": seed, "run": f"{label}/{seed}",
        "error": error, "measured": value,
    }  # fmt: skip


def comparison(*runs: Entry, **unsuitable: str) -> Comparison:
    return {
        "format": 1, "status": "finished", "deepcanon": "0", "torch": "0", "threads": 1, "created": "2020-01-01",
        "request": {}, "data": {}, "unsuitable": unsuitable, "reference": {}, "runs": list(runs),
    }  # fmt: skip


def test_probabilities_and_densities_never_share_a_table() -> None:
    found = sections(
        comparison(
            entry("bits", measured(likelihood(-20)), "binary"),
            entry("reals", measured(likelihood(50)), "dequantized"),
            entry("points", measured(likelihood(-1)), "plain"),
        )
    )
    assert [[row.label for row in section.rows] for section in found] == [["bits"], ["reals"], ["points"]]


def test_means_over_seeds_give_the_order_and_every_seed_is_kept() -> None:
    (section,) = sections(
        comparison(
            entry("a", measured(likelihood(-2)), seed=0),
            entry("a", measured(likelihood(-6)), seed=1),
            entry("b", measured(likelihood(-3)), seed=0),
            entry("b", measured(likelihood(-3)), seed=1),
        )
    )
    assert [row.label for row in section.rows] == ["b", "a"]
    assert section.rows[1].values(NATS) == [-2, -6]
    assert section.rows[1].mean(NATS) == -4
    assert remarks(section) == []


def test_a_bound_is_ranked_by_its_tighter_value_and_never_without_a_word() -> None:
    (section,) = sections(
        comparison(
            entry("exact", measured(likelihood(-5))),
            entry("bound", measured(likelihood(-7, "lower bound", tighter=-4))),
            entry("loose", measured(likelihood(-6, "lower bound"))),
            entry("lucky", measured(likelihood(-3, "lower bound", tighter=-6.5))),
            entry("guess", measured(likelihood(-8, "estimate"))),
            entry("energy", measured(likelihood(900, "unnormalized"))),
        )
    )
    assert [row.label for row in section.rows] == ["bound", "exact", "loose", "lucky", "guess", "energy"]
    kinds = ["lower bound", "exact", "lower bound", "lower bound", "estimate", "unnormalized"]
    assert [row.kind for row in section.rows] == kinds
    said = " ".join(remarks(section))
    assert "not all of one kind" in said
    assert "bound gives a lower bound" in said
    assert "loose gives a lower bound" in said
    assert "guess gives an estimate" in said
    assert "exact gives" not in said
    assert conclusions(section)[0].startswith(
        "bound gives the test data of d the highest log-likelihood: \N{MINUS SIGN}4.00"
    )
    assert "Of loose and lucky only a lower bound is known." in conclusions(section)[0]


def test_what_has_no_likelihood_stands_below_by_its_samples() -> None:
    (section,) = sections(
        comparison(
            entry("poor", measured(drawn=drawn(0.1))),
            entry("good", measured(drawn=drawn(0.6, copies=0.9))),
            entry("dense", measured(likelihood(-50), drawn=drawn(0.99))),
        )
    )
    assert [row.label for row in section.rows] == ["dense", "good", "poor"]
    assert NATS.write(section.rows[1].mean(NATS)) == DASH
    assert any("good has the samples that are hardest" in sentence for sentence in conclusions(section))
    assert any("good seems to have memorized" in sentence for sentence in conclusions(section))
    assert section.best(TWO_SAMPLE) == 0.6
    assert section.best(COPIES) is None  # neither more nor fewer is better
    assert SPEED.write(123_456.0) == "123k"


def test_samples_that_are_not_measured_are_reported_and_bounds_are_listed() -> None:
    bounds = [
        entry(name, measured(likelihood(nats, "lower bound"))) for name, nats in (("b", -2), ("c", -3), ("d", -4))
    ]
    plain = entry("a", measured(likelihood(-1), drawn={"per_second": 1.0, "quality": None}))
    (section,) = sections(comparison(plain, *bounds))
    assert [sentence.split()[0] for sentence in remarks(section)] == ["Samples", "These", "b", "c", "d"]
    assert conclusions(section)[0].endswith("Of b, c and d only a lower bound is known.")


def test_classifiers_stand_by_accuracy_then_by_log_loss() -> None:
    def classifier(label: str, accuracy: float, loss: float) -> Entry:
        given = {"calibration": 0.1, "confusion": [[1]]}
        return entry(label, measured(predictions=given, test={"accuracy": accuracy, "nll": loss}))

    (section,) = sections(comparison(classifier("a", 0.9, 0.5), classifier("b", 0.95, 0.6), classifier("c", 0.9, 0.4)))
    assert [row.label for row in section.rows] == ["b", "c", "a"]
    assert section.best(ACCURACY) == 0.95
    assert section.best(LOG_LOSS) == 0.4
    assert "b has the highest accuracy" in conclusions(section)[0]
    assert "95.00%" in conclusions(section)[0]


def test_other_models_show_the_measures_they_bring() -> None:
    (section,) = sections(
        comparison(
            entry("worse", measured(test={"loss": 1.0, "mse": 2.0, "mae": 1.0}, metrics=["mse", "mae"])),
            entry("better", measured(test={"loss": 1.0, "mse": 1.0, "mae": 1.0}, metrics=["mse", "mae"])),
        )
    )
    assert section.question == "others"
    assert [row.label for row in section.rows] == ["better", "worse"]
    assert [column.title for column in section.columns][:2] == ["mse", "mae"]
    assert conclusions(section) == []


def test_failures_are_reported_with_their_sentences() -> None:
    found = comparison(
        entry("a", None, error="it broke"),
        entry("a", measured(likelihood(-1)), seed=1),
        entry("b", None, error="it broke too"),
        c="it does not suit",
    )
    assert failures(found) == {"c": ["it does not suit"], "a": ["it broke"], "b": ["it broke too"]}
    (section,) = sections(found)
    assert [row.label for row in section.rows] == ["a"]
    assert "a failed with 1 of 2 seeds: it broke" in remarks(section)


@pytest.mark.parametrize("steps", [10, 4])
def test_a_budget_that_ended_a_training_is_reported(steps: int) -> None:
    (section,) = sections(comparison(entry("a", measured(likelihood(-1), steps=steps))))
    expected = ["a was stopped by the budget: seed 0 at step 4 of 10."] if steps == 4 else []
    assert remarks(section) == expected


def test_likelihoods_given_something_are_marked_and_have_an_order_of_their_own() -> None:
    (table,) = sections(
        comparison(
            entry("of_classes", measured(likelihood(-1, given="classes"))),
            entry("plain", measured(likelihood(-3))),
            entry("worse", measured(likelihood(-4))),
            entry("better_of_classes", measured(likelihood(-0.5, given="classes"))),
        )
    )
    assert [row.label for row in table.rows] == ["plain", "worse", "better_of_classes", "of_classes"]
    assert [row.likelihood for row in table.rows] == ["exact", "exact", "exact, given classes", "exact, given classes"]
    first, second = conclusions(table)
    assert first.startswith(
        "plain gives the test data of d the highest log-likelihood: \N{MINUS SIGN}3.00 nats (exact)"
    )
    assert second.startswith("better_of_classes gives the test data of d the highest log-likelihood")
    assert remarks(table) == [
        "The log-likelihood of better_of_classes and of_classes is given classes, that of plain and worse is not: they "
        "answer different questions, and each has an order of its own."
    ]
    (alone,) = sections(comparison(entry("of_classes", measured(likelihood(-1, given="classes")))))
    assert remarks(alone) == []


def test_likelihoods_of_sequences_say_what_they_are_a_mean_over() -> None:
    value = measured({**likelihood(-2, given="a source"), "per": "token"}, metrics=["accuracy"], test={"accuracy": 0.5})
    (table,) = sections(comparison(entry("translator", value)))
    assert title(table) == "Models of sequences"
    assert table.rows[0].likelihood == "exact per token, given a source"
    assert [column.title for column in table.columns] == ["nats", "accuracy", "training, s", "parameters"]
    (series,) = sections(comparison(entry("forecaster", measured({**likelihood(-2), "per": "step"}))))
    assert title(series) == "Models of time series"
