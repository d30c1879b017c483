"""The form of a data set that a model models: binary, as spins, in gray levels, dequantized, or as it is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from deepcanon.core import Support
from deepcanon.core.reading import check_names_file
from deepcanon.data import Dataset, load_data, of
from deepcanon.data.given_splits import held_out
from deepcanon.data.tensors import SOURCE
from deepcanon.data.transforms.few_labels import MARK
from deepcanon.data.transforms.forms import FORMS as VALUES
from deepcanon.data.transforms.forms import PICTURED, in_form

Form = Literal["binary", "spins", "levels", "dequantized", "plain"]
FORMS: tuple[Form, ...] = ("binary", "spins", "levels", "dequantized", "plain")


def ranked_as(form: Form, among: Collection[Form]) -> Form:
    """The form under which models are ranked together: spins are zeros and ones with other names, equally likely.

    >>> ranked_as("spins", {"spins", "binary"}), ranked_as("spins", {"spins"})
    ('binary', 'spins')
    """
    return "binary" if form == "spins" and "binary" in among else form


class Forms:
    """One data set, with the same split, in each form that is asked for.

    >>> forms = Forms("digits")
    >>> [forms.suiting(support) for support in ("binary", "real", "any")]
    ['binary', 'dequantized', 'plain']
    >>> forms["binary"].name, forms["plain"].name
    ('digits:binary', 'digits')
    """

    def __init__(self, data: Any, reading: Mapping[str, Any] | None = None) -> None:
        asked = dict(reading or {})
        check_names_file(asked, data)
        self.given = held_out(of(data, **asked))
        named = isinstance(data, str | Path)
        self.name, self.reading = (str(data), asked) if named else (self.given.name, _reading(self.given, asked))
        forms = [part for part in self.given.preprocessing.get("form", "").split(":") if part]
        self._hidden = [part for part in forms if part.startswith(MARK)]
        changed = [part for part in forms if part in VALUES or part in self._hidden]
        self._base = self.given
        if named and changed:
            rest = [part for part in forms if part not in changed]
            self._base = load_data(":".join([self.name.removesuffix(f":{':'.join(forms)}"), *rest]), **asked)
        kept = not named and bool(changed)
        pictured = self._base.kind in PICTURED and "levels" in self._base.preprocessing
        self._in_levels = pictured and not kept
        self._made: dict[Form, Dataset[Any]] = {}

    @property
    def in_memory(self) -> bool:
        """Whether the data were given in Python, so that no name finds them again."""
        return self.given.source == SOURCE

    @property
    def with_all_sizes(self) -> Dataset[Any]:
        """The data as given, with the sizes of all their forms: what suits one of the forms suits these."""
        levels = {"levels": self._base.preprocessing["levels"]} if self._in_levels else {}
        return replace(self.given, sizes={**levels, **self.given.sizes})

    def suiting(self, support: Support) -> Form:
        """The form for a model of these values; only images and videos in gray levels have other forms than their own.

        Binary probabilities and densities are kept apart even where the values happen to be the same.
        """
        if support == "binary":
            return "binary"
        if not self._in_levels:
            return "plain"
        forms: dict[Support, Form] = {"spins": "spins", "gray levels": "levels", "real": "dequantized"}
        return forms.get(support, "plain")

    def __getitem__(self, form: Form) -> Dataset[Any]:
        if form not in self._made:
            self._made[form] = self._in(form)
        return self._made[form]

    def _in(self, form: Form) -> Dataset[Any]:
        if form == "plain":
            return self.given
        same = not self._in_levels or (form == "binary" and _is_binary(self._base))
        data = self._base if same else in_form(self._base, form)
        return in_form(data, *self._hidden) if self._hidden else data


def _is_binary(data: Dataset[Any]) -> bool:
    x = data.train.x
    return bool(((x == 0) | (x == 1)).all())


def _reading(given: Dataset[Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """The options that read the data again by their name: of a data set that was read before, its own."""
    return dict(asked) if asked or given.source == SOURCE else dict(given.reading)
