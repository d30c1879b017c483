"""A run: a trained model with its data, and all that can be done with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self, Unpack

import torch
from torch import Generator, Tensor

from deepcanon.blueprints import Classes, blueprint
from deepcanon.core import (
    AnyBatch,
    Batch,
    Blueprint,
    Model,
    Recipe,
    Series,
    UsageError,
    Videos,
    given_batch,
    is_conditional,
    methods_of,
    own_parts,
)
from deepcanon.core.checks import at_least
from deepcanon.core.files import free, writable
from deepcanon.core.roles import Domain, HasNeighbors, Maps, Translates
from deepcanon.core.settings import Settings
from deepcanon.data import Dataset, of
from deepcanon.data.suits import check_suits, default_data
from deepcanon.data.transforms.forms import black_and_white
from deepcanon.runs import text
from deepcanon.runs.classes import finder
from deepcanon.runs.data import is_own, new_rows, own_data
from deepcanon.runs.examining import draw_pictures, examine_run
from deepcanon.runs.exporting import export
from deepcanon.runs.folder import RunFolder, describe_run
from deepcanon.runs.forecasting import columns_of, draw_forecasts, sample_paths
from deepcanon.runs.predict import check_room, mapped, predictions, sampled_rows, with_files, write_csv
from deepcanon.runs.resume import load_from, resume
from deepcanon.runs.sampling import check_drawable, draw_samples
from deepcanon.runs.shown_run import ShownRun
from deepcanon.runs.writing import conditioned, sources, texts, written
from deepcanon.train import Observer, fit, randomness
from deepcanon.train.evaluation import some_of_train
from deepcanon.train.health import examine
from deepcanon.train.settings import resolve_settings, settings_of

Scores = dict[str, dict[str, float]]
"""Metrics by name for each split of the data."""


class Run(ShownRun):
    """A trained model in its folder, with the data, the preprocessing and the settings it was trained with.

    Arguments:
        folder: The folder of the run.
        model: The class of its model, where that is not in the catalogue: itself or ``"FILE.py:Class"``, or several.
    """

    def __init__(self, folder: str | Path, model: Classes | None = None) -> None:
        self.folder = RunFolder.open(folder)
        self.find = finder(self.folder, model)

    @classmethod
    def train(
        cls,
        model: str | type[Model[Any]] | Blueprint | Model[Any],
        data: Any = None,
        *,
        target: str | None = None,
        out: str | Path | None = None,
        overwrite: bool = False,
        quiet: bool = False,
        observers: Sequence[Observer] = (),
        notify: Callable[[str], None] = lambda sentence: None,
        **settings: Unpack[Settings],
    ) -> Self:
        """Train a model on data, each by name or itself, into a folder; by default on embedded data that suit it.

        Data in memory are whatever :func:`~deepcanon.train.fit` takes.

        ``settings`` are those of :class:`~deepcanon.core.settings.Settings`. A method that learns from few labels is
        followed by its baselines, of which ``notify`` hears.
        """
        asked = blueprint(model)
        seed = resolve_settings(Recipe(), **settings)["seed"]  # a wrong setting is said before any data are read
        if target is not None and not isinstance(data, str | Path):
            raise UsageError(f"the target {target!r} is a column of which file? Name a CSV file as the data")
        chosen = default_data(asked) if data is None else of(data, **({} if target is None else {"target": target}))
        check_suits(asked, chosen)
        with randomness.kept():
            torch.manual_seed(seed)
            built = asked.build(chosen.sizes, chosen.name)
        folder = Path(out) if out is not None else folder_for(built.name(), chosen.name, taken=overwrite)
        fit(built, chosen, out=folder, overwrite=overwrite, quiet=quiet, observers=observers, **settings)
        run = cls(folder, tuple(own_parts(built).values()))
        run._add_baselines(asked, notify)
        return run

    @property
    def dir(self) -> Path:
        return self.folder.dir

    @property
    def info(self) -> dict[str, Any]:
        """The content of ``run.json``."""
        return self.folder.info

    @property
    def settings(self) -> Settings:
        """The settings of the training."""
        return settings_of(self.info, self.folder.file)

    @property
    def scores(self) -> Scores:
        """The metrics that the training has left, on each split of the data."""
        found = {split: self.info.get("results", {}).get(split, {}) for split in ("train", "valid", "test")}
        if not any(found.values()) and ("results" not in self.info or self.info["status"] != "finished"):
            raise UsageError(f"{self.dir} has no results yet (it is {self.info['status']}): resume it first")
        return found

    @cached_property
    def model(self) -> Model[Any]:
        """The trained model, in evaluation mode."""
        return load_from(self.folder, self.find)

    @cached_property
    def data(self) -> Dataset[Any]:
        """The data the run was trained on."""
        return own_data(self.folder)

    def resume(
        self,
        data: Any = None,
        *,
        quiet: bool = False,
        notify: Callable[[str], None] = lambda sentence: None,
    ) -> Self:
        """Go on with a run that was broken off; it ends as if it had never been."""
        resume(self.dir, data, find=self.find, quiet=quiet)
        run = self._at(self.dir)
        run._add_baselines(Blueprint.from_json(run.info["model"], run.find), notify)
        return run

    def changed(self, data: str | None = None) -> bool:
        """Whether these are the run's own data, and they have changed since."""
        return is_own(self.folder, data) and self.data.fingerprint() != self.info["data"]["fingerprint"]

    def evaluate(self, data: Any = None) -> Scores:
        """Measure the model again on its own data, or on others; own data that have changed count as new ones."""
        return examine_run(self, data).scores

    def draw(self) -> Path:
        """Draw the pictures of the run, as its training does at its end; the folder that they are in."""
        return draw_pictures(self)

    def predict(
        self,
        data: Any = None,
        *,
        to: Domain | None = None,
        out: str | Path | None = None,
        overwrite: bool = False,
        notify: Callable[[str], None] = lambda sentence: None,
    ) -> dict[str, list[Any]]:
        """The predictions for all rows of a file or folder as named columns, in the units of the user's table.

        Without ``data`` they are those for the test split of the run's own; a tensor or an array holds examples as the
        model takes them. ``out`` is a CSV file to write. A model of two domains maps the examples ``to`` the domain y,
        or x; one that translates, or captions images, writes a text for each. Of images, ``file`` is the first column,
        and ``notify`` hears of files in their folder that are none.
        """
        maps, writes = isinstance(self.model, Maps), isinstance(self.model, Translates)
        model: Any = self.model if maps or writes else self._model_that_can("predict")
        if to is not None and not maps:
            raise UsageError(f"{model.name()} does not map examples to another domain; leave out --to")
        path = None if out is None else writable(Path(out), overwrite, ".csv")
        if data is None or isinstance(data, str | Path):
            rows = new_rows(self.folder, model, None if data is None else str(data), labeled=False)
        else:
            rows = data if isinstance(data, AnyBatch) else Batch(data) if isinstance(data, Tensor) else of(data).train
        if maps:
            columns = mapped(model, rows, to or "y")
        else:
            columns = (written if writes else predictions)(model, rows, self.info["data"])
        if isinstance(data, str | Path):
            columns = with_files(columns, str(data), notify)
        if path is not None:
            write_csv(path, columns)
        return columns

    def sample(
        self,
        n: int = 64,
        *,
        given: str | int | None = None,
        guidance: float = 0.0,
        seed: int = 0,
        out: str | Path | None = None,
        overwrite: bool = False,
    ) -> Tensor:
        """New examples drawn from the model, (n, features); ``out`` is a picture or a CSV file to write.

        Rows of a table are written in its own columns, categories and units. ``given`` is the class that a
        class-conditional model draws, and ``guidance`` above 0 makes it count for more.
        """
        model = self._model_that_can("sample")
        at_least(1, n=n)
        path = None if out is None else writable(Path(out), overwrite, ".png", ".csv")
        table = path is not None and path.suffix.lower() == ".csv"
        info = self.info["data"]
        if path is not None and not table:
            check_drawable(n, info)
        check_room(n, info["shape"], table)
        conditioned = self._conditioned(model, n, given, guidance)
        drawn: Tensor = conditioned.sample(n, generator=Generator().manual_seed(seed)).detach().flatten(1)
        if path is not None and table:
            write_csv(path, sampled_rows(drawn, self.info["data"], given))
        elif path is not None:
            title = f"{n} samples of {model.name()}{'' if given is None else f', given {given}'}"
            draw_samples(drawn, path, title, info)
        return drawn

    def generate(
        self,
        prompt: str | None = None,
        steps: int = 200,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        stop: str | None = None,
        given: str | Path | None = None,
        seed: int = 0,
    ) -> str:
        """The prompt and so many further tokens of text, or fewer where the token ``stop`` comes first.

        Without a prompt the text begins anew; without ``stop`` it stops at the end token, if the data have one. A model
        that translates, or captions images, writes a random text for what is ``given``: a text, or an image's file.
        """
        model, info = self._model_that_can("generate"), self.info["data"]
        model, info = conditioned(model, None if given is None else str(given), info)
        before, end = text.encode(prompt, info), text.encode_stop(stop, info)
        tokens = model.generate(
            before, steps, temperature=temperature, top_k=top_k, top_p=top_p, stop=end,
            generator=Generator().manual_seed(seed),
        )  # fmt: skip
        added = tokens[0, before.shape[1] :].tolist()
        if end in added:
            tokens = tokens[:, : before.shape[1] + added.index(end)]
        return text.decode(tokens, info)

    def forecast(
        self,
        steps: int | None = None,
        *,
        samples: int = 100,
        data: str | Path | Series | Videos | None = None,
        seed: int = 0,
        out: str | Path | None = None,
        overwrite: bool = False,
    ) -> dict[str, list[Any]]:
        """Quantiles of the steps after the forecast origins of series, as named columns, with the truth where known.

        Videos are continued from their first half on. Without ``data`` the series are the test split of the run's own.
        ``out`` is a CSV file or a picture to write.
        """
        model = self._model_that_can("forecast")
        path = None if out is None else writable(Path(out), overwrite, ".png", ".csv")
        known = isinstance(data, Series | Videos)
        rows: Any = data if known else new_rows(self.folder, model, None if data is None else str(data))
        paths = sample_paths(model, rows, steps, samples, seed)
        columns = columns_of(paths, rows)
        if path is not None and path.suffix.lower() == ".csv":
            write_csv(path, columns)
        elif path is not None:
            limits = black_and_white(self.info["data"]["preprocessing"])
            draw_forecasts(paths, rows, path, f"forecasts of {model.name()}", limits)
        return columns

    def translate(self, *given: str, beams: int = 1) -> list[str]:
        """The translation of each text, or the caption of the image in each file: the best that a beam search finds."""
        model, info = self._model_that_can("translate"), self.info["data"]
        x, lengths = sources(given, info)
        tokens, ends = model.translate(x, **lengths, beams=beams)
        return texts(tokens, ends, info)

    def nearest(self, word: str, n: int = 10) -> list[tuple[str, float]]:
        """The words whose vectors are nearest to that of a word, with their cosines."""
        if not isinstance(self.model, HasNeighbors):
            raise UsageError(f"{self.model.name()} has no word vectors, so no word has neighbors; word2vec has some")
        return self.model.nearest(word, n)

    def export(
        self, to: str | Path, *, part: str | None = None, forward: bool = False, overwrite: bool = False
    ) -> float | None:
        """Write the model, or a part of it, as ONNX or safetensors; of a method, the plain model that it wraps.

        The ONNX file of a table takes its columns by name and gives what ``predict`` gives (NaN and no class, where a
        category is new); with ``forward`` it is the network alone. It returns how far its output is from torch's.
        """
        path = writable(Path(to), overwrite, ".onnx", ".safetensors")
        return export(self.plain, path, part, self.info["data"], lambda: self.data.train, forward)

    @property
    def plain(self) -> Model[Any]:
        """The model itself; of a method, the one that it wraps, with what the method has learned merged into it."""
        model: Any = self.model
        return model.unwrapped() if hasattr(model, "unwrapped") else model  # type: ignore[no-any-return]

    def unwrap(self, out: str | Path, *, overwrite: bool = False) -> Self:
        """Write the model that a method has trained as a run of its own."""
        if not hasattr(self.model, "unwrapped"):
            raise UsageError(f"{self.dir} holds a {self.model.name()}, which wraps no other model")
        plain, data, folder = self.plain.eval(), self.data, Path(out)
        RunFolder.claim(folder, overwrite=overwrite)
        train = some_of_train(data.train, self.settings)
        found = examine(plain, {"train": train, "valid": data.valid, "test": data.test}, data, self.settings)
        settings: Mapping[str, Any] = self.settings
        new = RunFolder(folder, describe_run(plain, data, settings, self.info["environment"]["processes"]))
        folder.mkdir(parents=True, exist_ok=True)
        new.begin()
        results, source = self.info["results"], f"unwrapped from {self.model.name()}"
        content = {**found.scores, "baseline": found.baseline, "by_class": found.by_class, "says": found.says}
        new.write_weights(plain.state_dict(), source, results["steps"], results["seconds"])
        new.write_results(content)
        new.finish()
        new.commit()
        return self._at(folder)

    def _at(self, folder: Path) -> Self:
        """A run in this folder, whose classes are found as those of this one are."""
        run = type(self)(folder)
        run.find = self.find
        return run

    def _add_baselines(self, asked: Blueprint, notify: Callable[[str], None]) -> None:
        if hasattr(asked.cls, "supervised") and self.settings["evaluate"]:
            from deepcanon.runs.baselines import add_baselines  # it draws, and matplotlib is slow to import

            add_baselines(self, asked, notify)

    def _model_that_can(self, method: str) -> Any:
        """The run's model, if it has the method."""
        there = methods_of(self.model)
        if method not in there:
            raise UsageError(f"{self.model.name()} cannot {method}; it can {', '.join(there) or 'only be trained'}")
        return self.model

    def _conditioned(self, model: Any, n: int, given: str | int | None, guidance: float) -> Any:
        """The model, conditioned on the class that its samples are to be of."""
        if given is None:
            if guidance != 0:
                raise UsageError("guidance leads towards a class; name it by --given CLASS")
            if is_conditional(model) and not model.context_optional:  # then on what held-out examples have
                return given_batch(model, self._some_held_out(n))
            return model
        if not is_conditional(model) or model.conditioned_on != "classes":
            raise UsageError(f"{model.name()} is not conditioned on classes, so leave out --given; guided_ddpm is")
        if guidance != 0 and "guidance" not in model.given_options:
            raise UsageError(f"{self.model.name()} has no guidance; leave it out, or take guided_ddpm")
        info = self.info["data"]
        names = info["labels"] or [str(c) for c in range(info["sizes"]["classes"])]
        if str(given) not in names:
            raise UsageError(f"there is no class {str(given)!r}; there are {', '.join(names)}")
        asked = {"guidance": guidance} if guidance != 0 else {}
        return model.given(names.index(str(given)), **asked)

    def _some_held_out(self, n: int) -> AnyBatch:
        """So many examples that were not learned from, gone through again and again where there are fewer."""
        data = self.data
        split: AnyBatch = next(part for part in (data.test, data.valid, data.train) if part is not None)
        return split.select(torch.arange(n, device=split.device) % len(split))


def folder_for(model: str, data: str, taken: bool = False) -> Path:
    """The folder of a run that was given none: ``runs/MODEL-DATA``, which only ``taken`` allows to be there already."""
    base = Path("runs") / f"{model}-{re.sub(r'[^A-Za-z0-9._-]+', '-', Path(data).stem)}"
    return base if taken else free(base)
