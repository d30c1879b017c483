from __future__ import annotations

import pytest
from torch import nn

from tests.diagnosis.checks.plain import causes, net, sgd


@pytest.mark.slow
def test_ten_layers_of_sigmoids_are_seen_and_two_are_fine() -> None:
    deep, shallow = (net(activation=nn.Sigmoid, layers=layers) for layers in (10, 2))
    assert causes("vanishing_gradients", deep, optimizer=sgd(deep), steps=120) == ["vanishing gradients"]
    assert causes("vanishing_gradients", shallow, optimizer=sgd(shallow), steps=120) == []
