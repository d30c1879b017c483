"""Nats per token are a mean over the tokens that are predicted, wherever they stand."""

import torch

from deepcanon.decoding.next_token import next_token_nll


def test_it_is_the_mean_over_all_tokens_but_the_first_of_each_row() -> None:
    random = torch.Generator().manual_seed(0)
    x, lengths = torch.randint(5, (3, 6), generator=random), torch.tensor([6, 2, 4])
    logits = torch.randn(3, 5, 5, generator=random, dtype=torch.float64)
    nats = [-logits[i, t - 1].softmax(-1)[x[i, t]].log() for i in range(3) for t in range(1, int(lengths[i]))]
    assert len(nats) == 9
    torch.testing.assert_close(next_token_nll(logits, x, lengths), torch.stack(nats).mean())
    padding = torch.arange(1, 6) >= lengths[:, None]
    poisoned = logits.masked_fill(padding[..., None], torch.nan)
    assert torch.equal(next_token_nll(poisoned, x, lengths), next_token_nll(logits, x, lengths))
    parts = [next_token_nll(logits[i : i + 1], x[i : i + 1], lengths[i : i + 1]) for i in range(3)]
    joined = (torch.stack(parts) * (lengths - 1)).sum() / 9
    torch.testing.assert_close(joined, torch.stack(nats).mean())


def test_rows_of_one_token_predict_nothing() -> None:
    assert next_token_nll(torch.randn(1, 1, 4), torch.tensor([[2, 0]]), torch.tensor([1])).item() == 0
