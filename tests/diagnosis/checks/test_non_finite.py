from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.diagnosis.checks.plain import CLASSES, X, adam, causes, net, report, sgd


class Logarithm(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = super().forward(x).relu().log()  # type: ignore[no-untyped-call]
        return out


class Root(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = super().forward(x)  # type: ignore[no-untyped-call]
        return out + (0 * out).square().sum(1, keepdim=True).sqrt()


class Masked(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        hidden = self[0](x)
        weights = hidden.masked_fill(hidden < hidden.mean(), -torch.inf).softmax(-1)
        out: Tensor = self[4](self[2](weights))
        return out


def test_the_first_operation_that_makes_a_number_infinite_is_named() -> None:
    found = list(report("non_finite", Logarithm(*net())))
    assert [each.cause for each in found] == ["non-finite values"]
    assert found[0].evidence["first_operation"] == "log"


def test_a_gradient_that_is_not_finite_is_seen_where_the_loss_is() -> None:
    found = list(report("non_finite", Root(*net())))
    assert [each.cause for each in found] == ["non-finite values"]
    assert found[0].evidence["first_operation"] == "sqrt"


def test_masks_of_infinite_numbers_are_fine() -> None:
    assert causes("non_finite", Masked(*net())) == []


def test_inputs_that_overflow_are_left_to_the_check_of_their_scale() -> None:
    class Exponential(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = super().forward(x.exp())  # type: ignore[no-untyped-call]
            return out

    assert causes("non_finite", Exponential(*net()), (1e4 * X, CLASSES)) == []
    assert causes("input_scale", Exponential(*net()), (1e4 * X, CLASSES)) == ["unscaled inputs"]


def test_a_logarithm_of_its_own_that_a_trial_makes_infinite_is_named_and_not_the_rate() -> None:
    def by_hand(z: Tensor, y: Tensor) -> Tensor:
        p = z.sigmoid()
        return -(y * p.log() + (1 - y) * (1 - p).log()).mean()

    bits = (X[:, :1] > 0).float()
    model = net(1)
    found = list(report("non_finite", model, (X, bits), loss=by_hand, optimizer=adam(model, 0.05), steps=300))
    assert [each.cause for each in found] == ["non-finite values"]
    assert "log" in found[0].where
    sound = net(1)
    loss = nn.BCEWithLogitsLoss()
    assert causes("non_finite", sound, (X, bits), loss=loss, optimizer=adam(sound, 0.05), steps=300) == []
    wild = net(1)
    squares = nn.MSELoss()  # whose weights explode by the rate
    assert causes("non_finite", wild, (X, bits), loss=squares, optimizer=sgd(wild, 100.0), steps=300) == []
