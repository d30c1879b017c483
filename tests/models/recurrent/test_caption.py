"""The captioner is torch's own layers on the same weights, a distribution over captions, and learns to read scenes."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, group_norm, max_pool2d, relu, scaled_dot_product_attention

import deepcanon as dc
from deepcanon.core import Captioned, DataError, UsageError
from deepcanon.models.recurrent.caption import Caption
from deepcanon.train.evaluation import evaluate

BEGIN, END, STEPS = 0, 1, 4


def model(target_vocab: int = 3, seed: int = 0, layers: int = 1, attend: bool = True) -> Caption:
    torch.manual_seed(seed)
    made = Caption(
        2, 6, 8, target_vocab, BEGIN, END, hidden=(3, 4), embedding=5, units=6, layers=layers, attend=attend
    )  # fmt: skip
    for parameter in made.double().eval().parameters():
        parameter.data.mul_(2)
    return made


def images(count: int = 3) -> Tensor:
    return torch.rand(count, 2, 6, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("attend", [True, False])
@pytest.mark.parametrize("layers", [1, 2])
def test_log_prob_is_that_of_torchs_lstm_with_the_image_in_its_cells(layers: int, attend: bool) -> None:
    ours, x = model(target_vocab=6, layers=layers, attend=attend), images()
    y, lengths = torch.tensor([[0, 3, 4, 1, -1], [0, 2, 1, -1, 9], [0, 5, 5, 2, 1]]), torch.tensor([4, 3, 5])
    theirs = nn.LSTM(5, 6, layers, batch_first=True).double()
    theirs.load_state_dict(ours.recurrent.state_dict())
    maps = x
    for place in (0, 4):
        maps = max_pool2d(conv2d(maps, ours.get_parameter(f"stages.{place}.weight"), padding="same"), 2)
        scale, shift = ours.stages[place + 2].parameters()
        maps = relu(group_norm(maps, 1, scale, shift))
    seen = ours.seen(maps.reshape(3, -1))
    wanted = []
    for row, length in enumerate(lengths.tolist()):
        inputs, cells = ours.embedding.weight[y[row, : length - 1]], seen[row].view(layers, 6)
        outputs, _ = theirs(inputs, (torch.zeros_like(cells), cells))
        if ours.look is not None:  # (3), by torch's kernel of scaled dot-product attention
            columns = maps[row].flatten(1).T
            keys = columns @ ours.look.key.weight.T + ours.look.place
            queries = outputs @ ours.look.query.weight.T
            outputs = torch.cat([outputs, scaled_dot_product_attention(queries, keys, columns)], 1)
        log_p = (outputs @ ours.head.weight.T + ours.head.bias).log_softmax(-1)
        wanted.append(log_p.gather(1, y[row, 1:length, None]).sum())
    found = ours.log_prob(y, lengths=lengths, context=x)
    torch.testing.assert_close(found, torch.stack(wanted), rtol=0, atol=1e-12)
    loss = ours.loss(Captioned(x, y, lengths))["nll"]
    torch.testing.assert_close(loss, -torch.stack(wanted).sum() / 9, rtol=0, atol=1e-12)


def captions() -> list[list[int]]:
    """All captions of up to ``STEPS`` tokens after the begin token, complete or not."""
    rows = {(BEGIN, *row[: row.index(END) + 1 if END in row else STEPS]) for row in product(range(3), repeat=STEPS)}
    return [list(row) for row in sorted(rows)]


def log_probs(ours: Caption, x: Tensor) -> Tensor:
    rows = captions()
    y = torch.tensor([row + [-1] * (STEPS + 1 - len(row)) for row in rows])  # the padding may hold anything
    with torch.no_grad():
        return ours.log_prob(y, lengths=torch.tensor([len(row) for row in rows]), context=x)


def test_the_probabilities_of_all_captions_of_an_image_sum_to_one() -> None:
    every = [log_probs(model(), x.unsqueeze(0)) for x in images()]
    for log_p in every:
        assert float(log_p.exp().sum()) == pytest.approx(1, abs=1e-12)
    assert not torch.allclose(every[0], every[1])


def test_a_wide_beam_finds_the_enumerated_argmax_and_greedy_decoding_the_greedy_one() -> None:
    x, differ = images(), False
    for seed in range(6):
        ours = model(seed=seed)
        tokens, ends = ours.translate(x, beams=100, steps=STEPS)
        greedy, greedy_ends = ours.translate(x, steps=STEPS)
        assert torch.equal(ours.generate(greedy[:, :1], STEPS, context=x, temperature=0)[:, :2], greedy[:, :2])
        for row in range(3):
            best = captions()[int(log_probs(ours, x[row : row + 1]).argmax())]
            assert tokens[row, : ends[row]].tolist() == best
            differ |= greedy[row, : greedy_ends[row]].tolist() != best
    assert differ, "the search never mattered"


def test_exact_match_is_the_share_of_captions_that_greedy_decoding_writes() -> None:
    ours, x = model(seed=4), images(40)
    lengths = 2 + torch.arange(40) % 4
    y = torch.where(torch.arange(5) < lengths.unsqueeze(1) - 1, 2, END)
    y[:, 0] = BEGIN
    greedy, ends = ours.translate(x, steps=STEPS)
    for row in range(0, 40, 2):  # every other caption is the one that is written, if that ends
        if greedy[row, ends[row] - 1] == END:
            y[row, : ends[row]], lengths[row] = greedy[row, : ends[row]], ends[row]
    right = [
        row[:end] == wanted[:length]
        for row, end, wanted, length in zip(greedy.tolist(), ends.tolist(), y.tolist(), lengths.tolist(), strict=True)
    ]
    assert 0 < sum(right) < len(right)
    for size in (1, 7, 1024):  # a mean over captions, though the loss is one over tokens
        found = evaluate(ours, Captioned(x, y, lengths), size=size)["exact_match"]
        assert found == pytest.approx(sum(right) / len(right), abs=1e-6)


def test_what_is_no_image_is_refused() -> None:
    ours, y = model(), torch.tensor([[0, 2, 1]])
    with pytest.raises(UsageError, match="is conditional: give an image"):
        ours.log_prob(y)
    with pytest.raises(DataError, match=r"images of real numbers, \(B, 2, 6, 8\); got torch.float64 of \(3, 1, 6, 8\)"):
        ours.given(images()[:, :1])
    with pytest.raises(UsageError, match="images alone, not on 2 things"):
        ours.given((images(), torch.tensor([1, 2, 3])))
    with pytest.raises(DataError, match="every target ends with the token 1; row 0 does with 2"):
        ours.prepare([Captioned(images(1), y, torch.tensor([2]))])
    with pytest.raises(UsageError, match="4 stages halve sides of 6 and 8 pixels to none"):
        Caption(2, 6, 8, 3, BEGIN, END, hidden=(2, 2, 2, 2))
    with pytest.raises(UsageError, match="caption learns from captioned images; digits gives images"):
        dc.Run.train("caption", "digits")
    with pytest.raises(UsageError, match="seq2seq_attention learns from pairs of sequences; scenes gives captioned"):
        dc.Run.train("seq2seq_attention", "scenes")


@pytest.mark.slow
def test_it_learns_to_say_what_it_sees() -> None:
    x = torch.zeros(400, 1, 4, 4)
    place = torch.arange(400) % 4
    x[torch.arange(400), 0, 3 * (place // 2), 3 * (place % 2)] = 1  # a dot in one of the corners
    up, left = 2 + place // 2, 4 + place % 2
    y = torch.stack([torch.zeros_like(place), up, left, torch.ones_like(place)], 1)
    data = dc.from_tensors(x, y, y_lengths=4)
    torch.manual_seed(0)
    sizes: Any = {name: size for name, size in data.sizes.items() if name != "features"}
    ours = Caption(**sizes, hidden=(4,), units=16)
    assert dc.fit(ours, data, quiet=True, epochs=8, lr=1e-2).train["exact_match"] == 1
