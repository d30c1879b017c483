from __future__ import annotations

from torch.optim import AdamW

from tests.diagnosis.checks.plain import adam, causes, net, sgd


def test_a_decay_that_outweighs_the_gradient_is_seen_and_a_usual_one_is_fine() -> None:
    model = net()
    usual = AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    assert causes("decay_strength", model, optimizer=usual) == []
    found = ["weight decay too strong"]
    assert causes("decay_strength", model, optimizer=adam(model, 1e-2, weight_decay=10.0), steps=150) == found
    assert causes("decay_strength", model, optimizer=sgd(model, weight_decay=1.0), steps=150) == found
