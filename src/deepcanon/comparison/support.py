"""The form of a data set that a model models: binary, as spins, in gray levels, dequantized, or as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from deepcanon.core import Support
from deepcanon.data import Dataset, load_data
from deepcanon.data.images import image_folder
from deepcanon.data.transforms.few_labels import MARK
from deepcanon.data.transforms.forms import PICTURED, in_form

Form = Literal["binary", "spins", "levels", "dequantized", "plain"]
FORMS: tuple[Form, ...] = ("binary", "spins", "levels", "dequantized", "plain")


class Forms:
    """One data set, with the same split, in each form that is asked for.

    >>> forms = Forms("digits")
    >>> [forms.suiting(support) for support in ("binary", "real", "any")]
    ['binary', 'dequantized', 'plain']
    >>> forms["binary"].name, forms["plain"].name
    ('digits:binary', 'digits')
    """

    def __init__(self, name: str, reading: Mapping[str, Any] | None = None) -> None:
        self.name, self.reading = name, dict(reading or {})
        self.given = load_data(name, **(reading or {}))
        self.given.split("test")
        form = self.given.preprocessing.get("form")
        size = [part for part in (form or "").split(":") if part.startswith(image_folder.MARK)]
        plain = ":".join([name.removesuffix(f":{form}"), *size])
        base = load_data(plain, **(reading or {})) if form else self.given
        self._hidden = [part for part in (form or "").split(":") if part.startswith(MARK)]
        self._made: dict[Form, Dataset[Any]] = {}
        self._base = base

    @property
    def with_all_sizes(self) -> Dataset[Any]:
        """The data as given, with the sizes of all their forms: what suits one of the forms suits these."""
        levels = {"levels": self._base.preprocessing["levels"]} if self._base.kind in PICTURED else {}
        return replace(self.given, sizes={**levels, **self.given.sizes})

    def suiting(self, support: Support) -> Form:
        """The form for a model of these values; only images and videos have other forms than their own.

        Binary probabilities and densities are kept apart even where the values happen to be the same.
        """
        if support == "binary":
            return "binary"
        if self._base.kind not in PICTURED:
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
        same = self._base.kind not in PICTURED or (form == "binary" and _is_binary(self._base))
        data = self._base if same else in_form(self._base, form)
        return in_form(data, *self._hidden) if self._hidden else data


def _is_binary(data: Dataset[Any]) -> bool:
    x = data.train.x
    return bool(((x == 0) | (x == 1)).all())
