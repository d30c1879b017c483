from __future__ import annotations

from tests.diagnosis.checks.plain import adam, causes, net, report


def test_an_optimizer_of_another_model_is_seen() -> None:
    assert causes("optimizer_parameters", net()) == []
    assert causes("optimizer_parameters", net(), optimizer=adam(net())) == ["parameters not in the optimizer"]


def test_an_optimizer_of_the_head_alone_is_noted() -> None:
    model = net()
    found = report("optimizer_parameters", model, optimizer=adam(model[4]))
    assert found.healthy
    assert [note.cause for note in found.notes] == ["parameters not in the optimizer"]
