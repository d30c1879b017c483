import math
from typing import Any

import numpy as np

from deepcanon.pictures.curves import curves, smooth


def step(number: int, terms: dict[str, float], **more: Any) -> dict[str, Any]:
    return {"kind": "step", "step": number, "epoch": 1, "terms": terms, "loss": sum(terms.values()), **more}


def epoch(number: int, valid: dict[str, float]) -> dict[str, Any]:
    return {"kind": "epoch", "step": number, "epoch": 1, "valid": valid}


def history(steps: int = 100) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for i in range(1, steps + 1):
        terms = {"reconstruction": 30 + 10 / i, "kl": 1 - 1 / i}
        records.append(step(i, terms, lr=0.1 / i, grad_norm=2.0 + math.sin(i)))
        if i % 25 == 0:
            records.append(epoch(i, {**terms, "loss": sum(terms.values()), "nll": 31.0}))
    return records


def titles(figure: Any) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes]


def test_the_running_mean_is_that_of_numpy() -> None:
    values = np.random.default_rng(0).normal(size=50)
    inside = np.convolve(values, np.ones(5) / 5, mode="valid")
    assert np.allclose(smooth(values, 5)[2:-2], inside)
    assert np.isclose(smooth(values, 5)[0], values[:3].mean())
    assert np.isclose(smooth(values, 5)[-1], values[-3:].mean())


def test_each_thing_of_a_run_has_its_panel() -> None:
    assert titles(curves(history())) == ["Loss", "NLL", "Learning rate", "Gradient norm"]


def test_the_raw_values_are_drawn_as_they_were_logged() -> None:
    records = history()
    axes, *_ = curves(records, unit="bits").axes
    raw = np.asarray(axes.lines[0].get_ydata())
    assert np.array_equal(raw, [record["terms"]["reconstruction"] for record in records if record["kind"] == "step"])
    valid = np.asarray(axes.lines[2].get_ydata())
    assert np.array_equal(valid, [r["valid"]["reconstruction"] for r in records if r["kind"] == "epoch"])
    assert axes.get_ylabel() == "bits"
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "reconstruction",
        "kl",
        "sum of the terms",
        "validation",
    ]


def test_the_sum_of_terms_that_means_nothing_is_left_out() -> None:
    axes, *_ = curves(history(), summed=False).axes
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["reconstruction", "kl", "validation"]


def test_losses_of_several_turns_are_not_added_up() -> None:
    for other, drawn in (("kl", True), ("member-2.nll", False)):
        axes, *_ = curves([step(i, {"nll": 1.0, other: 2.0}) for i in range(1, 9)]).axes
        legend = axes.get_legend()
        assert legend is not None
        assert ("sum of the terms" in [text.get_text() for text in legend.get_texts()]) == drawn


def test_a_wide_range_of_positive_values_is_drawn_on_a_logarithm() -> None:
    panels = dict(zip(titles(curves(history())), curves(history()).axes, strict=True))
    assert panels["Learning rate"].get_yscale() == "log"  # from 0.1 to 0.001
    assert panels["Gradient norm"].get_yscale() == "linear"
    negative = curves([step(i, {"energy": -float(10**i)}) for i in range(1, 5)])
    assert negative.axes[0].get_yscale() == "linear"


def test_a_term_below_zero_is_not_cut_off_by_the_logarithm_of_another() -> None:
    records = [step(i, {"contrastive_divergence": 1 - i / 20, "penalty": 0.001 * i}) for i in range(1, 50)]
    assert curves(records, summed=False).axes[0].get_yscale() == "linear"


def test_what_is_not_finite_or_not_there_is_left_out() -> None:
    records = [
        step(1, {"nll": 1.0}, grad_norm=None),
        step(2, {"nll": math.nan}),
        step(3, {"nll": 3.0}),
        step(4, {"x": 1.0}),
    ]
    axes, *others = curves(records).axes
    assert others == []
    assert np.array_equal(np.asarray(axes.lines[0].get_xdata()), [1, 3])


def test_histories_of_one_step_only_validation_or_nothing_are_drawn() -> None:
    assert titles(curves([step(1, {"energy": -1.0}, lr=0.0)])) == ["Loss"]
    assert titles(curves([epoch(1, {"loss": 1.0, "accuracy": 0.5})])) == ["Accuracy"]
    assert titles(curves([])) == []


def test_long_histories_are_thinned() -> None:
    axes, *_ = curves([step(i, {"nll": 1.0}) for i in range(1, 20_001)]).axes
    assert len(np.asarray(axes.lines[0].get_xdata())) <= 2500
