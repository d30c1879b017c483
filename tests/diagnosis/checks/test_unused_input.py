from __future__ import annotations

from torch import Tensor, nn

from tests.diagnosis.checks.plain import causes, net


class Forgetful(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = super().forward(0 * x)  # type: ignore[no-untyped-call]
        return out


def test_an_input_that_is_lost_is_seen_and_a_start_at_zero_is_not() -> None:
    assert causes("unused_input", Forgetful(*net())) == ["input not used"]
    model = net()
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    assert causes("unused_input", model) == []
    assert causes("unused_input", net(activation=nn.Sigmoid, layers=12)) == []
    assert causes("unused_input", net(activation=nn.Sigmoid, layers=20)) == []
