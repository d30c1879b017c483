"""Dates as people write them are read back by another program, in every form."""

from datetime import date, datetime

import pytest
import torch

import deepcanon as dc
from deepcanon.data.sets.dates import FORMS, SIZE, SOURCE, TARGET, written

READ = {
    FORMS[0]: "%d %B %Y",
    FORMS[1]: "%B %d, %Y",
    FORMS[2]: "%A, %d %B %Y",
    FORMS[3]: "%b %d, %Y",
    FORMS[4]: "%d.%m.%Y",
    FORMS[5]: "%Y, %B %d",
}


@pytest.mark.parametrize("form", READ)
def test_pythons_own_parser_reads_the_same_date(form: str) -> None:
    for day in (date(1900, 1, 1), date(2024, 2, 29), date(1999, 12, 31), date(2001, 9, 11)):
        assert datetime.strptime(written(day, form), READ[form]).date() == day


@pytest.mark.parametrize(("day", "ending"), [(1, "st"), (2, "nd"), (3, "rd"), (4, "th"), (11, "th"), (22, "nd")])
def test_ordinals_end_as_in_english(day: int, ending: str) -> None:
    assert written(date(2000, 5, day), FORMS[6]) == f"the {day}{ending} of may 2000"


def test_the_splits_hold_different_dates_with_their_targets() -> None:
    data = dc.load_data("dates")
    assert [len(data.split(part)) for part in ("train", "valid", "test")] == [10000, 1000, 1000]
    batch = data.test
    assert batch is not None
    assert tuple(batch.x.shape[1:]) == data.shape == SIZE[:1]
    for x, y, length in zip(batch.x[:50].tolist(), batch.y[:50].tolist(), batch.lengths[:50].tolist(), strict=True):
        day = date.fromisoformat(TARGET.decode(y))
        assert SOURCE.decode(x[:length]) in {written(day, form) for form in FORMS}
        assert y[0] == data.sizes["begin_token"]
        assert y[-1] == data.sizes["end_token"]
    assert not torch.equal(data.train.x[:1000], batch.x)
    assert data.vocabulary == SOURCE.vocabulary
    assert data.target_vocabulary == TARGET.vocabulary
