"""Tables: forms are never mixed, bounds are never ranked without a word, dashes where there is no number."""

from __future__ import annotations

from typing import Any

import pytest

from deepcanon.comparison.columns import ACCURACY, BALANCED, COPIES, DASH, LOG_LOSS, NATS, RMSE, SPEED, TWO_SAMPLE
from deepcanon.comparison.differences import Difference, Measure
from deepcanon.comparison.measures import Likelihood, Measured
from deepcanon.comparison.record import Comparison, Entry
from deepcanon.comparison.sentences import across, conclusions, cut_short, remarks, title
from deepcanon.comparison.support import Form
from deepcanon.comparison.tables import Section, failures, sections


def measured(likelihood: Likelihood | None = None, **changes: Any) -> Measured:
    whole: Measured = {
        "parameters": 3, "buffers": 0, "steps": 10, "planned": 10, "seconds": 1.0, "weights": "last", "watch": None,
        "test": {}, "metrics": [], "likelihood": likelihood, "drawn": None, "predictions": None,
        "classes": [], "targets": None, "forecasts": None, "cost": None, "baseline": None, "examples": [],
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


def entry(
    label: str,
    value: Measured | None,
    form: Form = "plain",
    seed: int = 0,
    error: str | None = None,
    baseline: bool = False,
) -> Entry:
    return {
        "label": label, "model": None if baseline else label, "baseline": baseline, "form": form, "data": "d",
        "seed": seed, "examples": None, "run": f"{label}/{seed}", "error": error, "measured": value,
    }  # fmt: skip


def comparison(*runs: Entry, **unsuitable: str) -> Comparison:
    return {
        "format": 1, "status": "finished", "deepcanon": "0", "torch": "0", "threads": 1, "created": "2020-01-01",
        "request": {}, "chosen": [], "data": {"labels": []}, "unsuitable": unsuitable, "reference": {},
        "runs": list(runs), "differences": [], "curve": [], "gains": [],
    }  # fmt: skip


def test_gray_levels_and_dequantized_ones_are_compared_in_bits() -> None:
    """A density plus log2 of the levels is, on average over the noise, no more than the log2 of a probability."""

    def in_bits(nats: float, bits: float, kind: str = "exact", given: str | None = None) -> Measured:
        found = likelihood(nats, kind, given=given)
        found["bits"] = bits
        return measured(found)

    runs = [
        entry("pixels", in_bits(-50, 2.5), "levels"),
        entry("told", in_bits(70, 1.5, given="the class"), "dequantized"),
        entry("flow", in_bits(60, 3.5), "dequantized"),
        entry("bound", in_bits(40, 4.5, "lower bound"), "dequantized"),
    ]
    (sentence,) = across(sections(comparison(*runs)))
    assert sentence.endswith("for the gray levels pixels needs 2.500, and flow at most 3.500.")
    drawn_ones = [runs[0], entry("sde", in_bits(80, 3.0, "estimate"), "dequantized")]
    assert across(sections(comparison(*drawn_ones)))[0].endswith("about 3.000.")
    assert across(sections(comparison(*runs[1:]))) == across(sections(comparison(runs[0]))) == []


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
    assert [section.marked(row, TWO_SAMPLE) for row in section.rows] == [False, True, False]
    assert not any(section.marked(row, COPIES) for row in section.rows)  # neither more nor fewer is better
    (alike,) = sections(comparison(*(entry(name, measured(drawn=drawn(0.0))) for name in "abc")))
    assert not any(alike.marked(row, TWO_SAMPLE) for row in alike.rows)  # all as bad as can be: none is the best
    assert SPEED.write(123_456.0) == "123k"
    (alone,) = sections(comparison(entry("one", measured(drawn=drawn(0.6)))))
    assert conclusions(alone) == [
        "A random forest tells samples of one from d in 60.0% of cases, and 50% would be random guessing."
    ]
    (both,) = sections(comparison(*(entry(name, measured(drawn=drawn(1.0))) for name in ("a", "b"))))
    assert conclusions(both)[0].startswith("The samples of a and b can all be told from data")


def test_samples_that_are_not_measured_are_reported_and_bounds_are_listed() -> None:
    bounds = [
        entry(name, measured(likelihood(nats, "lower bound"))) for name, nats in (("b", -2), ("c", -3), ("d", -4))
    ]
    plain = entry("a", measured(likelihood(-1), drawn={"per_second": 1.0, "quality": None}))
    (section,) = sections(comparison(plain, *bounds))
    assert [sentence.split()[0] for sentence in remarks(section)] == ["Samples", "These", "b", "c", "d"]
    assert conclusions(section)[0].endswith("Of b, c and d only a lower bound is known.")


def of_class(examples: int, found: int) -> dict[str, Any]:
    return {"examples": examples, "found": found, "predicted": found}


def classifier(label: str, loss: float | None, right: tuple[int, int], prior: float = 0.6, seed: int = 0) -> Entry:
    """A classifier of 80 examples of one class and 20 of another, of which it finds so many."""
    classes = [of_class(80, right[0]), of_class(20, right[1])]
    test = {"accuracy": sum(right) / 100, "nll": loss, "balanced_accuracy": (right[0] / 80 + right[1] / 20) / 2}
    known = {name: value for name, value in test.items() if value is not None}
    baseline = {"name": "the class prior", "test": {"nll": prior, "accuracy": 0.8, "balanced_accuracy": 0.5}}
    given = {"calibration": 0.1, "confusion": [[1]]}
    return entry(label, measured(predictions=given, test=known, classes=classes, baseline=baseline), seed=seed)


def gap(first: str, second: str, low: float, high: float, measure: Measure = "log_loss") -> Difference:
    return {
        "first": first, "second": second, "form": "plain", "measure": measure, "difference": (low + high) / 2,
        "low": low, "high": high, "examples": 100,
    }  # fmt: skip


def compared(*runs: Entry, gaps: tuple[Difference, ...] = ()) -> Section:
    (section,) = sections({**comparison(*runs), "differences": list(gaps)})
    return section


def test_classifiers_stand_by_log_loss_and_one_without_probabilities_after_them() -> None:
    a, b, c = classifier("a", 0.5, (75, 15)), classifier("b", 0.55, (79, 16)), classifier("c", 0.4, (70, 10))
    assert [row.label for row in compared(a, b, c).rows] == ["c", "a", "b"]
    hard, harder = classifier("hard", None, (76, 18)), classifier("harder", None, (78, 19))
    gaps = (gap("hard", "c", 0.1, 0.3, "balanced_accuracy"), gap("hard", "c", -9.0, 9.0, "log_loss"))
    section = compared(hard, a, b, c, harder, gaps=gaps)
    assert [row.label for row in section.rows] == ["c", "a", "b", "harder", "hard"]
    verdict, *others = conclusions(section)
    assert verdict.startswith("c has the lowest log loss on the test data of d: log loss 0.4000")
    assert others == [
        "harder gives no probabilities, so it has no log loss and no rank: its balanced accuracy is 0.9625, that of c "
        "0.6875.",
        "hard gives no probabilities, so it has no log loss and no rank: its balanced accuracy is 0.9250, that of c "
        "0.6875; the difference is 0.2000 (95% interval 0.1000 to 0.3000).",
    ]


def test_one_classifier_with_probabilities_and_one_without_stand_by_balanced_accuracy() -> None:
    section = compared(classifier("soft", 0.4, (70, 10)), classifier("hard", None, (76, 18)))
    assert [row.label for row in section.rows] == ["hard", "soft"]
    assert conclusions(section)[0].startswith("hard has the highest balanced accuracy")


def test_a_classifier_without_probabilities_is_held_to_the_baseline_too() -> None:
    lazy = classifier("lazy", None, (80, 0))
    section = compared(classifier("a", 0.5, (75, 15)), classifier("b", 0.4, (75, 15)), lazy)
    assert "lazy does not beat the class prior: balanced accuracy 0.5000 against 0.5000." in conclusions(section)


def test_a_winner_is_named_and_marked_only_outside_the_noise() -> None:
    runs = (classifier("a", 0.5, (75, 15)), classifier("b", 0.4, (78, 16)))
    apart = compared(*runs, gaps=(gap("a", "b", 0.05, 0.15),))
    assert [(row.label, apart.marked(row, LOG_LOSS)) for row in apart.rows] == [("b", True), ("a", False)]
    assert conclusions(apart) == [
        "b has the lowest log loss on the test data of d: log loss 0.4000, 94 of 100 right. Next is a with log loss "
        "0.5000, 90 of 100 right; the difference is 0.1000 (95% interval 0.0500 to 0.1500)."
    ]
    tied = compared(*runs, gaps=(gap("a", "b", -0.05, 0.25),))
    assert not any(tied.marked(row, column) for row in tied.rows for column in (LOG_LOSS, ACCURACY, BALANCED))
    assert conclusions(tied) == [
        "b and a cannot be told apart on the test data of d: log loss 0.4000 and 0.5000, 94 of 100 and 90 of 100 "
        "right; difference 0.1000 (95% interval \N{MINUS SIGN}0.0500 to 0.2500)."
    ]


def test_many_that_cannot_be_told_apart_are_said_in_short() -> None:
    runs = [classifier(name, 0.40 + place / 100, (78, 16)) for place, name in enumerate("abcd")]
    section = compared(*runs, gaps=tuple(gap(name, "a", -0.1, 0.2) for name in "bcd"))
    assert conclusions(section) == [
        "a, b, c and d cannot be told apart on the test data of d: log loss from 0.4000 to 0.4300, and the interval of "
        "each difference from a holds 0."
    ]


def test_a_classifier_that_misses_a_class_is_never_marked_and_it_is_said() -> None:
    """It has the best of every number, but finds none of the rare class."""
    blind, poor = classifier("blind", 0.2, (80, 0)), classifier("poor", 0.3, (70, 5))
    section = compared(blind, poor, gaps=(gap("blind", "poor", -0.2, -0.05),))
    assert section.rows[0].label == "blind"
    assert not any(section.marked(section.rows[0], column) for column in section.columns)
    assert "blind finds none of the 20 test examples of the class '1'." in conclusions(section)
    found = compared(classifier("blind", 0.2, (80, 1)), poor, gaps=(gap("blind", "poor", -0.2, -0.05),))
    assert found.marked(found.rows[0], LOG_LOSS)


def test_models_that_do_not_beat_the_class_prior_are_told_and_not_marked() -> None:
    runs = (classifier("a", 0.7, (75, 15)), classifier("b", 0.8, (70, 15)))
    section = compared(*runs, gaps=(gap("a", "b", -0.2, -0.05),))
    assert conclusions(section) == [
        "No model beats the class prior on the test data of d.",
        "a does not beat the class prior: log loss 0.7000 against 0.6000.",
        "b does not beat the class prior: log loss 0.8000 against 0.6000.",
    ]
    assert not any(section.marked(row, column) for row in section.rows for column in section.columns)


def test_densities_inside_the_noise_have_no_winner() -> None:
    runs = (entry("a", measured(likelihood(-1.0))), entry("b", measured(likelihood(-1.2))))
    tied = compared(*runs, gaps=(gap("a", "b", -0.1, 0.5, "log_likelihood"),))
    assert conclusions(tied)[0] == (
        "a and b cannot be told apart by the log-likelihood of the test data of d: \N{MINUS SIGN}1.00 and "
        "\N{MINUS SIGN}1.20 nats (exact); difference \N{MINUS SIGN}0.20 (95% interval \N{MINUS SIGN}0.50 to 0.10)."
    )
    apart = compared(*runs, gaps=(gap("a", "b", 0.1, 0.3, "log_likelihood"),))
    assert conclusions(apart)[0].startswith("a gives the test data of d the highest log-likelihood")


def test_regression_has_a_heading_a_verdict_and_its_own_units() -> None:
    def model(label: str, rmse: float, r2: float) -> Entry:
        targets = {"target": "price", "rmse": rmse, "mae": rmse / 2, "r2": r2}
        baseline = {"name": "the mean of the training targets", "test": {"rmse": 80.0, "mae": 60.0, "r2": 0.0}}
        return entry(label, measured(targets=targets, baseline=baseline, test={"rmse": 9.9}))

    runs = (model("a", 50.0, 0.61), model("b", 60.0, 0.44))
    section = compared(*runs, gaps=(gap("a", "b", -15.0, -5.0, "squared_error"),))
    assert title(section) == "Regression"
    assert [section.marked(row, RMSE) for row in section.rows] == [True, False]
    (verdict,) = conclusions(section)
    assert verdict.startswith(
        "a has the lowest RMSE on the test data of d: RMSE 50 in the units of 'price', R² 0.6100."
    )
    assert verdict.endswith("the difference is 10 (95% interval 5 to 15).")
    worse = compared(model("a", 90.0, -0.3))
    assert "a does not beat the mean of the training targets: RMSE 90 against 80." in conclusions(worse)


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
    short = ["a was stopped by the budget before the training ended."] if steps == 4 else []
    assert cut_short([section]) == short


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


def test_it_is_said_plainly_when_a_baseline_wins() -> None:
    def model(label: str, rmse: float, baseline: bool = False) -> Entry:
        targets = {"target": "price", "rmse": rmse, "mae": rmse, "r2": 0.5}
        return entry(label, measured(targets=targets), baseline=baseline)

    runs = (model("mlp", 60.0), model("linear", 70.0), model("boosting", 50.0, True), model("ridge", 65.0, True))
    clear = (
        gap("boosting", "mlp", -15.0, -5.0, "squared_error"),
        gap("boosting", "linear", -25.0, -15.0, "squared_error"),
        gap("boosting", "ridge", -20.0, -10.0, "squared_error"),
    )
    section = compared(*runs, gaps=clear)
    words = "the best of them, mlp, is behind by 10 (95% interval 5 to 15) in RMSE."
    assert f"boosting is better than every model here: {words}" in conclusions(section)
    assert section.behind(section.rows[0]) is None
    behind = section.behind(section.rows[1])
    assert behind is not None
    assert (behind["low"], behind["high"]) == (5.0, 15.0)
    noisy = compared(*runs, gaps=(gap("boosting", "mlp", -15.0, 5.0, "squared_error"), *clear[1:]))
    words = "difference in RMSE is -5 (95% interval -15 to 5).".replace("-", "\N{MINUS SIGN}")
    tied = f"The test data do not tell the best model, mlp, from the best baseline, boosting: the {words}"
    assert tied in conclusions(noisy)
    ours = compared(
        model("mlp", 40.0), model("boosting", 50.0, True), gaps=(gap("mlp", "boosting", -15.0, -5.0, "squared_error"),)
    )
    assert "mlp is better than the baseline boosting, by 10 (95% interval 5 to 15) in RMSE." in conclusions(ours)


def test_what_does_not_beat_its_baseline_is_not_called_as_good_as_the_best() -> None:
    runs = (classifier("good", 0.2, (78, 18)), classifier("wild", 99.0, (78, 18)))
    section = compared(*runs, gaps=(gap("good", "wild", -200.0, 1.0),))
    assert conclusions(section)[0].startswith("good has the lowest log loss")
