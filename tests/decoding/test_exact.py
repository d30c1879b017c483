"""An exact search finds the most probable of all sequences, which enumeration finds too."""

import pytest
import torch

from deepcanon.core import UsageError
from deepcanon.decoding.exact import exact_search
from tests.decoding.test_beam import STEPS, STOP, model, penalized_scores, sequences


@pytest.mark.parametrize("kind", ["lstm", "gpt"])
@pytest.mark.parametrize("length_penalty", [0.0, 1.2])
@pytest.mark.parametrize("top", [1, 4, 40])
def test_the_best_of_all_sequences_are_found(kind: str, length_penalty: float, top: int) -> None:
    found = model(kind).exact_search(torch.tensor([[0], [1]]), STEPS, top=top, stop=STOP, length_penalty=length_penalty)
    for row in range(2):
        wanted = sequences(row, kind)
        scores = penalized_scores(wanted, length_penalty)
        ranked = sorted(wanted, key=lambda cut: -scores[cut])[:top]
        rows = zip(found.tokens[row].tolist(), found.lengths[row].tolist(), strict=True)
        assert [tuple(tokens[:length]) for tokens, length in rows] == ranked
        torch.testing.assert_close(found.log_prob[row], torch.tensor([wanted[cut] for cut in ranked]).double())


def test_it_finds_what_beams_miss() -> None:
    """Of several models, some have a best sequence that three beams do not find."""
    missed = 0
    for seed in range(8):
        judge = model("lstm", seed)
        prompt = torch.tensor([[0]])
        beam, exact = judge.beam_search(prompt, 5, beams=2), judge.exact_search(prompt, 5)
        assert float(exact.log_prob[0, 0]) >= float(beam.log_prob[0, 0]) - 1e-12
        missed += float(exact.log_prob[0, 0]) > float(beam.log_prob[0, 0]) + 1e-6
    assert missed


def test_prompts_that_end_at_different_lengths_stand_in_one_table() -> None:
    prompt = torch.tensor([[0, 1], [1, 1], [2, 0]])
    found = model().exact_search(prompt, 6, top=2, stop=STOP)
    for row in range(3):
        alone = model().exact_search(prompt[row : row + 1], 6, top=2, stop=STOP)
        torch.testing.assert_close(found.log_prob[row], alone.log_prob[0])
        for each in range(2):
            end = int(alone.lengths[0, each])
            assert torch.equal(found.tokens[row, each, :end], alone.tokens[0, each, :end])
    assert torch.equal(model().exact_search(prompt, 0).tokens[:, 0], prompt)


def test_a_search_that_would_take_too_long_gives_up() -> None:
    with pytest.raises(UsageError, match=r"an exact search would follow \d+ beginnings of \d tokens, more than 3"):
        exact_search(model().step, torch.tensor([[0]]), 6, 100, most=3)
    with pytest.raises(UsageError, match="top must be at least 1"):
        model().exact_search(torch.tensor([[0]]), 2, top=0)
    with pytest.raises(UsageError, match="length_penalty is 0, none, or more"):
        model().exact_search(torch.tensor([[0]]), 2, stop=STOP, length_penalty=-1)
