"""The display of a run: a line of text, a table in a notebook, and its pictures."""

from __future__ import annotations

from typing import Any

from deepcanon.core.display import Pictures, Shown, notebook, scores_table, sentences, table
from deepcanon.runs.folder import RunFolder
from deepcanon.train.live_curve import curve_of


class ShownRun(Shown):
    """A run by what its folder says, without its model being built or its data being read."""

    folder: RunFolder

    @property
    def pictures(self) -> Pictures:
        """The pictures that the training has drawn, which a notebook displays."""
        return Pictures(sorted(self.folder.pictures.glob("*.png")))

    def _facts(self) -> dict[str, Any]:
        info, results = self.folder.info, self._results
        about = {"folder": str(self.folder.dir), "model": info["model"]["model"], "data": info["data"]["name"]}
        found = {"steps": results["steps"], "test": results["test"] or results["valid"]} if results else {}
        return {**about, "status": info["status"], **found}

    def _repr_html_(self) -> str:
        about = {name: value for name, value in self._facts().items() if name != "test"}
        scores = {split: self._results.get(split, {}) for split in ("train", "valid", "test")}
        said = sentences(self._results.get("says", []))
        return notebook("Run", table([], about.items()), scores_table(scores), said, curve_of(self.folder.log()))

    @property
    def _results(self) -> dict[str, Any]:
        found: dict[str, Any] = self.folder.info.get("results", {})
        return found
