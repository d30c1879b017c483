from __future__ import annotations

import pytest

from deepcanon.data import of
from deepcanon.diagnosis.admission import admit


def test_the_constant_answer_of_an_autoencoder_is_the_variance_of_its_data() -> None:
    data = of("digits")
    variance = float(data.train.x.double().flatten(1).var(0, correction=0).sum())
    assert admit("autoencoder", data).baseline == pytest.approx(variance, rel=1e-4)
    assert admit("vae", data).baseline is None  # its loss is another one
