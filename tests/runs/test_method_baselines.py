"""A run of a method is shown next to the same network without it, and next to what is cheap."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import deepcanon as dc
from deepcanon.data import from_tensors
from deepcanon.data.split import stratified_order
from deepcanon.runs.feature_baselines import DRAWS

QUICK: dict[str, Any] = {"quiet": True, "seed": 0}


def clouds(classes: int = 6, each: int = 30) -> Any:
    """Classes around points far from each other, in four dimensions."""
    random = torch.Generator().manual_seed(0)
    y = torch.arange(classes).repeat(each)
    x = 3 * torch.randn(classes, 4, generator=random)[y] + torch.randn(len(y), 4, generator=random)
    return from_tensors(x, y).with_validation_split(seed=0)


@pytest.mark.parametrize("method", ["simclr", "masked_reconstruction"])
def test_features_are_probed_next_to_the_inputs_and_an_untrained_network(method: str, tmp_path: Path) -> None:
    data = clouds()
    run = dc.Run.train(f"{method}:model=mlp", data, out=tmp_path / "run", steps=3, **QUICK)
    found, labels = run.info["baselines"], "(60 labels)"
    cases = ["supervised, same augmentation", "the inputs as they are", "the same network untrained", method]
    assert list(found) == [f"{name} {labels}" for name in cases]
    assert (run.folder.pictures / "baselines.png").is_file()
    # The probe of the inputs, by hand: ten labels of each class, stratified by the seed.
    rows = stratified_order(data.train.y.numpy(), 0)[:60]
    scaler = StandardScaler().fit(data.train.x[rows].double())
    probe = LogisticRegression(max_iter=1000).fit(scaler.transform(data.train.x[rows].double()), data.train.y[rows])
    score = probe.score(scaler.transform(data.valid.x.double()), data.valid.y)
    assert found[f"the inputs as they are {labels}"] == pytest.approx(score)


def test_one_shot_accuracies_are_of_classes_that_were_left_out_and_of_those_seen(tmp_path: Path) -> None:
    data = clouds()
    run = dc.Run.train("siamese:model=mlp", data, out=tmp_path / "run", steps=3, pictures=False, **QUICK)
    found = run.info["baselines"]
    simple = ["nearest pixels", "the same network untrained"]
    wanted = [f"3 new classes: {name}" for name in (*simple, "the same network, supervised", "siamese")]
    assert list(found) == [*wanted, *(f"6 classes seen: {name}" for name in (*simple, "siamese"))]
    random, x, y = torch.Generator().manual_seed(0), data.valid.x.numpy(), data.valid.y.numpy()
    shares = []
    for _ in range(DRAWS):  # by hand, one query after the other
        order = torch.randperm(len(y), generator=random).tolist()
        given = {label: next(row for row in order if y[row] == label) for label in range(6)}
        right = [
            min(given, key=lambda label: float(np.linalg.norm(x[row] - x[given[label]]))) == y[row]
            for row in range(len(y))
            if row not in given.values()
        ]
        shares.append(np.mean(right))
    assert found["6 classes seen: nearest pixels"] == pytest.approx(np.mean(shares))


def test_two_or_three_classes_are_too_few_to_leave_some_out(tmp_path: Path) -> None:
    run = dc.Run.train("siamese:model=mlp", clouds(classes=3), out=tmp_path / "run", steps=2, pictures=False, **QUICK)
    assert "baselines" not in run.info


@pytest.mark.parametrize(("method", "trained"), [("lora:rank=2", 2 * (4 + 8 + 8 + 6)), ("adapters:bottleneck=2", 96)])
def test_fine_tuning_of_few_parameters_is_shown_next_to_that_of_all(method: str, trained: int, tmp_path: Path) -> None:
    data = clouds()
    base = dc.Run.train("mlp:hidden=8", data, out=tmp_path / "base", epochs=20, pictures=False, **QUICK)
    run = dc.Run.train(f"{method},model={base.dir}", data, out=tmp_path / "run", steps=3, pictures=False, **QUICK)
    found = run.info["baselines"]
    last, all_of_it = 8 * 6 + 6, 4 * 8 + 8 + 8 * 6 + 6
    assert list(found) == [
        "LogisticRegression (scikit-learn)",
        "before fine-tuning (0 parameters)",
        f"the last layer alone ({last} parameters)",
        f"full fine-tuning ({all_of_it} parameters)",
        f"{method.partition(':')[0]} ({trained} parameters)",
    ]
    assert found["before fine-tuning (0 parameters)"] == pytest.approx(base.info["results"]["valid"]["accuracy"])
    assert list(found.values())[-1] == pytest.approx(run.info["results"]["valid"]["accuracy"])
