from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.diagnosis.checks.plain import CLASSES, X, causes, net, report


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
