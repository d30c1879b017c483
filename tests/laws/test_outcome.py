import math
from typing import Any

import torch
from torch import nn

from deepcanon.laws.outcome import Measured, Outcome, law, outcomes, report, violations


@law
def weight_is_small(module: Any, batch: Any) -> Measured | None:
    """A law for these tests: it changes what it looks at and draws random numbers."""
    if batch is None:
        return None
    if batch == "bad":
        raise ValueError("this went wrong\nand more")
    torch.rand(3)
    with torch.no_grad():
        module.weight.add_(1)
    return float(batch), 1.0, "compared"


def test_an_outcome_holds_up_to_its_bound_and_never_for_a_nan() -> None:
    assert Outcome.of("x", 1.0, 1.0, "").holds
    assert not Outcome.of("x", 1.0 + 1e-12, 1.0, "").holds
    assert not Outcome.of("x", math.nan, 1.0, "").holds


def test_a_law_takes_its_name_from_its_function_and_leaves_no_trace() -> None:
    module = nn.Linear(2, 1)
    weight, state = module.weight.clone(), torch.get_rng_state()
    found = weight_is_small(module, 0.5)
    assert found == Outcome("weight is small", True, 0.5, 1.0, "compared")
    assert torch.equal(module.weight, weight)
    assert torch.equal(torch.get_rng_state(), state)


def test_an_error_inside_a_law_is_an_outcome_that_fails() -> None:
    found = weight_is_small(nn.Linear(2, 1), "bad")
    assert found is not None
    assert not found.holds
    assert found.detail == "it raised ValueError: this went wrong"


def test_a_law_that_does_not_apply_is_not_listed() -> None:
    assert outcomes([weight_is_small], nn.Linear(2, 1), None) == []


def test_faults_are_counted() -> None:
    assert violations(["a", "b"], "fine") == (2, 0, "a; b")
    assert violations([], "fine") == (0, 0, "fine")


def test_the_report_begins_with_what_fails() -> None:
    text = report([Outcome.of("good", 0, 1, "g"), Outcome.of("bad", 2, 1, "b"), Outcome.of("fine", 0, 1, "f")])
    first, *_, last = text.splitlines()
    assert first == "FAILS  bad  (measured 2, bound 1): b"
    assert last == "2 laws hold, 1 fail"
