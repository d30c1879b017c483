"""The masking chooses the same number of tokens at every step, never a special one, and shows them 80/10/10."""

import pytest
import torch

from deepcanon.models.attention._masking import Masking

MASKING = Masking(0.15, mask_token=0, kept=(1, 2), vocab=50)


def rows(count: int = 40, length: int = 30) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randint(3, 50, (count, length), generator=torch.Generator().manual_seed(0))
    x[:, 0], x[:, 5] = 1, 2
    return x, torch.arange(count) % (length - 6) + 7


def test_the_number_of_chosen_tokens_follows_from_the_length() -> None:
    x, lengths = rows()
    counts = MASKING.counts(x, lengths)
    assert counts.tolist() == [max(1, round(0.15 * length)) for length in lengths.tolist()]
    for seed in range(3):
        torch.manual_seed(seed)
        assert torch.equal(MASKING.draw(x, lengths).counted.sum(1), counts)
    few = torch.tensor([[1, 2, 2, 9, 9], [1, 7, 2, 2, 9]])
    assert MASKING.counts(few, torch.tensor([3, 4])).tolist() == [0, 1]


def test_only_tokens_between_special_ones_are_chosen_and_changed() -> None:
    x, lengths = rows()
    torch.manual_seed(0)
    shown, places, true, counted = MASKING.draw(x, lengths)
    assert torch.equal(x.gather(1, places), true)
    assert (places < lengths[:, None])[counted].all()
    assert ((true != 1) & (true != 2))[counted].all()
    chosen = torch.zeros_like(x, dtype=torch.bool).scatter(1, places, counted)
    assert chosen.sum() == counted.sum()  # no place twice
    assert torch.equal(shown[~chosen], x[~chosen])


def test_of_the_chosen_80_percent_are_masked_and_10_percent_are_random() -> None:
    x, lengths = rows(4000)
    torch.manual_seed(0)
    shown, places, true, counted = MASKING.draw(x, lengths)
    found = shown.gather(1, places)[counted]
    kept = (found == true[counted]).double().mean().item()
    masked = (found == 0).double().mean().item()
    error = 4 * (0.8 * 0.2 / len(found)) ** 0.5
    assert masked == pytest.approx(0.8 + 0.1 / 50, abs=error)
    assert kept == pytest.approx(0.1 + 0.1 / 50, abs=error)
    spread = torch.zeros_like(x).scatter_add(1, places, counted.long())[:, 1:5].double().mean(0)
    assert spread.std() / spread.mean() < 0.1  # every place is chosen as often
