"""Whatever data and modules ``fit`` takes, it trains the same model on the same examples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Subset, TensorDataset
from torch.utils.data import Dataset as TorchDataset

import deepcanon as dc
from deepcanon.core import UsageError

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(60, 2)), RANDOM.integers(0, 2, 60)
TENSORS = TensorDataset(torch.tensor(X).float(), torch.tensor(Y))


class Items(TorchDataset[Any]):
    """Examples one by one: arrays, and numbers of Python."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, place: int) -> tuple[Any, int]:
        return X[place], int(Y[place])


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))


def weights(data: Any, **settings: Any) -> Tensor:
    module = net()
    dc.fit(module, data, loss=nn.CrossEntropyLoss(), quiet=True, epochs=2, **settings)
    return torch.cat([weight.detach().flatten() for weight in module.parameters()])


FORMS: dict[str, Callable[[], Any]] = {
    "arrays": lambda: (X, Y),
    "tensors": lambda: (torch.tensor(X).float(), torch.tensor(Y)),
    "lists": lambda: (X.tolist(), Y.tolist()),
    "tensor data set": lambda: TENSORS,
    "data set": Items,
    "a part of one": lambda: Subset(Items(), range(60)),
    "loader": lambda: DataLoader(Items(), batch_size=20, shuffle=True, drop_last=True),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_the_same_data_trains_the_same_weights(form: str) -> None:
    expected = weights(dc.from_tensors(X, Y), batch_size=20)
    assert not torch.equal(expected, weights((X, Y), batch_size=10))
    given = {} if form == "loader" else {"batch_size": 20}  # which a loader has of its own
    assert torch.equal(weights(FORMS[form](), **given), expected)


def test_a_plain_module_learns_what_a_loop_of_torch_learns() -> None:
    module = net()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        functional.cross_entropy(module(torch.tensor(X).float()), torch.tensor(Y)).backward()
        optimizer.step()
    ours = net()
    result = dc.fit(
        ours, (X, Y), loss=nn.CrossEntropyLoss(), optimizer="sgd", lr=0.1, batch_size=60, epochs=5, quiet=True
    )
    for theirs, mine in zip(module.parameters(), ours.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)  # the order of a sum is another
    assert result.train["accuracy"] == pytest.approx(
        float((ours(torch.tensor(X).float()).argmax(1) == torch.tensor(Y)).double().mean())
    )


def test_a_run_of_a_plain_module_is_evaluated_by_the_module_and_the_loss(tmp_path: Path) -> None:
    module, loss = net(), nn.CrossEntropyLoss()
    result = dc.fit(module, (X, Y), loss=loss, out=tmp_path, quiet=True, epochs=1)
    with pytest.raises(UsageError, match=r"give PlainModule\(module, loss\)"):
        dc.load(tmp_path)
    run = dc.Run(tmp_path, dc.PlainModule(net(), loss))
    assert run.evaluate((X, Y))["test"] == run.evaluate(dc.from_tensors(X, Y))["train"] == pytest.approx(result.train)
    assert len(run.predict(X[:5])["prediction"]) == 5
    run.folder.update(status="running")
    assert run.resume((X, Y), quiet=True).scores["train"] == pytest.approx(result.train)
    assert torch.equal(run.model.state_dict()["module.0.weight"], module.state_dict()["0.weight"])
    with pytest.raises(UsageError, match="is another"):
        dc.load(tmp_path, dc.PlainModule(net(), nn.MSELoss()))


def test_what_cannot_be_fitted_is_said() -> None:
    with pytest.raises(UsageError, match="Sequential is a plain module without a loss: give one"):
        dc.fit(net(), (X, Y), quiet=True)
    with pytest.raises(UsageError, match="has a loss of its own"):
        dc.fit(dc.PlainModule(net(), nn.CrossEntropyLoss()), (X, Y), loss=nn.CrossEntropyLoss(), quiet=True)
