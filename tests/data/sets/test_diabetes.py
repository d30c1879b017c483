"""The diabetes patients are scikit-learn's, each once, standardized by the training split alone."""

import numpy as np
import torch
from sklearn.datasets import load_diabetes

from deepcanon.data import load_data


def test_training_data_have_mean_0_and_variance_1_and_the_others_nearly() -> None:
    data = load_data("diabetes")
    for rows in (data.train.x, data.train.y):
        assert torch.allclose(rows.mean(0), torch.zeros(()), atol=1e-5)
        assert torch.allclose(rows.var(0, correction=0), torch.ones(()), atol=1e-5)
    assert data.test is not None
    assert float(data.test.x.mean(0).abs().max()) > 1e-3


def test_every_patient_is_in_one_part() -> None:
    data = load_data("diabetes")
    parts = [data.split(name) for name in ("train", "valid", "test")]
    ours = torch.cat([part.y[:, 0] for part in parts]).double().numpy()
    theirs = load_diabetes().target
    standardized = (np.sort(theirs) - theirs.mean()) / theirs.std()
    np.testing.assert_allclose((np.sort(ours) - ours.mean()) / ours.std(), standardized, atol=1e-5)


def test_columns_keep_their_order() -> None:
    data = load_data("diabetes")
    x, y = (torch.cat([getattr(data.split(name), field) for name in ("train", "valid", "test")]) for field in "xy")
    bunch = load_diabetes()
    ours = np.corrcoef(np.column_stack([x.double().numpy(), y.double().numpy()]).T)
    np.testing.assert_allclose(ours, np.corrcoef(np.column_stack([bunch.data, bunch.target]).T), atol=1e-5)
