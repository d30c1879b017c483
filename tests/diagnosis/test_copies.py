from __future__ import annotations

import copy
import threading
from itertools import chain
from typing import Any

import torch
from torch import nn

import deepcanon as dc
from deepcanon.diagnosis.copies import copied
from tests.diagnosis.checks.plain import CLASSES, CROSS_ENTROPY, X, adam, net


def test_what_cannot_be_copied_is_shared_and_all_else_is_copied() -> None:
    model = net()
    model[0].lock = threading.Lock()  # type: ignore[assignment]
    optimizer = adam(model)
    for twin, other in (copied(model, optimizer), copied(*copied(model, optimizer))):
        again = copy.deepcopy(twin)
        assert twin[0].lock is again[0].lock is model[0].lock
        for parameter, kept in zip(
            chain(twin.parameters(), again.parameters()), 2 * list(model.parameters()), strict=True
        ):
            assert parameter is not kept
            assert torch.equal(parameter, kept)
        assert other is not None
        assert other.param_groups[0]["params"][0] is twin[0].weight


def test_a_tensor_in_the_middle_of_a_graph_is_copied_without_it() -> None:
    model = net()
    model.last = model(X)
    twin, _ = copied(model, None)
    assert torch.equal(twin.last, torch.as_tensor(model.last))
    assert not twin.last.requires_grad
    assert twin.last is not copy.deepcopy(twin).last


def test_a_module_with_a_lock_is_examined() -> None:
    for end, found in ((nn.Softmax(1), ["softmax before cross-entropy"]), (nn.Identity(), [])):
        model = nn.Sequential(net(), end)
        model.lock = threading.Lock()  # type: ignore[assignment]
        report = dc.doctor(model, (X, CLASSES), loss=CROSS_ENTROPY, optimizer=adam(model))
        assert [finding.cause for finding in report] == found
        assert "__deepcopy__" not in vars(model)


def test_an_optimizer_with_attributes_of_its_own_is_copied_with_them() -> None:
    model = net()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)
    twin, other = copied(model, optimizer)
    assert other is not None
    assert other._params[0] is twin[0].weight  # type: ignore[attr-defined]

    def step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Any) -> Any:
        def closure() -> float:
            optimizer.zero_grad()
            loss = CROSS_ENTROPY(model(batch.x), batch.y)
            loss.backward()
            return float(loss)

        return optimizer.step(closure)

    assert dc.doctor(model, (X, CLASSES), step=step, optimizer=optimizer, batch_size=600).healthy
