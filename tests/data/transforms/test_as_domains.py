"""Two classes become two unpaired domains, with nothing lost and nothing mixed."""

import pytest
import torch

from deepcanon.core import DataError, TwoDomains, UsageError
from deepcanon.data import load_data


def test_each_class_is_a_domain_in_every_split() -> None:
    plain, domains = load_data("digits"), load_data("digits:domains=3/8")
    assert (domains.name, domains.kind, domains.labels) == ("digits:domains=3/8", "domains", ())
    assert domains.sizes == {size: value for size, value in plain.sizes.items() if size != "classes"}
    for part in ("train", "valid", "test"):
        before, after = plain.split(part), domains.split(part)
        assert type(after) is TwoDomains
        assert torch.equal(after.x, before.x[before.y == 3])
        assert torch.equal(after.y, before.x[before.y == 8])


def test_of_two_classes_the_names_may_be_left_out() -> None:
    assert torch.equal(load_data("moons:domains").train.x, load_data("moons:domains=upper/lower").train.x)
    assert torch.equal(load_data("moons:domains").train.x, load_data("moons:domains=lower/upper").train.y)


@pytest.mark.parametrize(
    ("name", "error", "problem"),
    [
        ("digits:domains", DataError, "digits has 10 classes; say which are the domains"),
        ("digits:domains=3/11", DataError, "digits has no class '11'; it has 0, 1"),
        ("digits:domains=3", UsageError, "two domains are written digits:domains or"),
        ("digits:domains=3/3", UsageError, "two domains are written"),
        ("eight-gaussians:domains", DataError, "eight-gaussians does not give classes"),
        ("spots:domains", DataError, "spots does not give classes"),
        ("two-domains:domains", DataError, "two-domains does not give classes"),
    ],
)
def test_what_cannot_be_two_domains_is_refused(name: str, error: type[Exception], problem: str) -> None:
    with pytest.raises(error, match=problem):
        load_data(name)
