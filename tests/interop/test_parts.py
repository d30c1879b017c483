"""Parts of a model are found by name, and their inputs by watching the model use them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from deepcanon.core import UsageError
from deepcanon.interop.parts import inputs_of, part_of


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(4, 2)
        self.decoder = nn.Sequential(nn.Linear(2, 4), nn.Tanh())
        self.unused = nn.Linear(7, 7)

    def forward(self, x: Tensor) -> Tensor:
        code: Tensor = self.encoder(x)
        return code

    def decode(self, z: Tensor) -> Tensor:
        seen: Tensor = self.decoder(z)
        return seen


def test_a_part_is_found_by_its_name() -> None:
    pair = Pair()
    assert part_of(pair, "decoder") is pair.decoder
    assert part_of(pair, "decoder.0") is pair.decoder[0]
    with pytest.raises(UsageError, match=r"no part 'decodr'; did you mean decoder\?"):
        part_of(pair, "decodr")
    with pytest.raises(UsageError, match="no part 'zzz'; it has encoder, decoder, unused"):
        part_of(pair, "zzz")


def test_a_parts_inputs_are_those_the_model_gives_it() -> None:
    pair, x, z = Pair(), torch.randn(2, 4), torch.randn(2, 2)
    calls = [lambda: pair(x), lambda: pair.decode(z)]
    encoder, decoder = inputs_of(pair.encoder, calls), inputs_of(pair.decoder, calls)
    assert encoder is not None
    assert encoder[0] is x
    assert decoder is not None
    assert decoder[0] is z
    assert inputs_of(pair.unused, calls) is None
