"""A run: a trained model with its data, and all that can be done with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TextIO, Unpack

import torch
from torch import Generator, Tensor

from deepcanon.blueprints import Classes, blueprint
from deepcanon.core import Blueprint, Graph, Model, Recipe, UsageError, methods_of, own_parts
from deepcanon.core.checks import at_least
from deepcanon.core.files import free, writable
from deepcanon.core.reading import Reading, TrainingOptions, check_names_file, names_in, reading_of
from deepcanon.core.roles import Domain
from deepcanon.core.settings import Settings
from deepcanon.data import Dataset, of
from deepcanon.data.frames import as_file
from deepcanon.data.suits import check_suits, default_data
from deepcanon.runs import text
from deepcanon.runs.classes import finder
from deepcanon.runs.data import is_own, own_data, tokens_of
from deepcanon.runs.examining import draw_pictures, examine_run
from deepcanon.runs.exporting import export
from deepcanon.runs.folder import RunFolder, describe_run
from deepcanon.runs.forecasting import ahead, columns_of, reaching, sample_paths, write_forecasts
from deepcanon.runs.neighbors import NearExamples, nearest_examples, word_vectors
from deepcanon.runs.predict import check_room, joined, predicted, sampled_rows, write_csv, write_parts
from deepcanon.runs.resume import load_from, resume
from deepcanon.runs.sampling import check_drawable, draw_graphs, draw_samples, edge_columns, of_class, way_of_sampling
from deepcanon.runs.shown_run import ShownRun
from deepcanon.runs.writing import conditioned, searched, sources, texts, without_end
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
        out: str | Path | None = None,
        overwrite: bool = False,
        quiet: bool = False,
        observers: Sequence[Observer] = (),
        notify: Callable[[str], None] = lambda sentence: None,
        **options: Unpack[TrainingOptions],
    ) -> Self:
        """Train a model on data, each by name or itself, into a folder; by default on embedded data that suit it.

        Data in memory are whatever :func:`~deepcanon.train.fit` takes.

        ``options`` are the settings of :class:`~deepcanon.core.settings.Settings` and, of a file, those of
        :class:`~deepcanon.core.reading.Reading`: ``target`` is the column to be predicted. A method that learns from
        few labels is followed by its baselines, of which ``notify`` hears, as of what was decided when a file was read.
        """
        asked, reading = blueprint(model), reading_of(options)
        settings = Settings(**{name: value for name, value in options.items() if name not in Reading.__annotations__})  # type: ignore[typeddict-item]
        seed = resolve_settings(Recipe(), **settings)["seed"]  # a wrong setting is said before any data are read
        check_names_file(reading, data)
        chosen = default_data(asked) if data is None else of(data, **reading, **tokens_of(asked, data, reading))
        for remark in chosen.remarks:
            notify(remark)
        check_suits(asked, chosen)
        with randomness.kept():
            torch.manual_seed(seed)
            built = asked.build(chosen.model_sizes, chosen.name)
        folder = Path(out) if out is not None else folder_for(built.name(), chosen.name, taken=overwrite)
        fit(built, chosen, out=folder, overwrite=overwrite, quiet=quiet, observers=observers, **settings)
        run = cls(folder, tuple(own_parts(built).values()))
        run._add_baselines(asked, chosen, notify)
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
        observers: Sequence[Observer] = (),
        notify: Callable[[str], None] = lambda sentence: None,
    ) -> Self:
        """Go on with a run that was broken off; it ends as if it had never been."""
        resume(self.dir, data, find=self.find, quiet=quiet, observers=observers)
        run = self._at(self.dir)
        asked = Blueprint.from_json(run.info["model"], run.find)
        if not getattr(asked.cls, "wraps_trained", False):  # the model as it was before is not in the run
            run._add_baselines(asked, data, notify)
        return run

    def changed(self, data: str | None = None) -> bool:
        """Whether these are the run's own data, and they have changed since."""
        return is_own(self.folder, data) and self.data.fingerprint() != self.info["data"]["fingerprint"]

    def evaluate(self, data: Any = None, *, nodes: str | Path | None = None, likelihood: str | None = None) -> Scores:
        """Measure the model again, on other data if given; ``likelihood`` names one, where a model has several."""
        return examine_run(self, data, nodes, likelihood).scores

    def draw(self) -> Path:
        """Draw the pictures of the run, as its training does at its end; the folder that they are in."""
        return draw_pictures(self)

    def predict(
        self,
        data: Any = None,
        *,
        to: Domain | None = None,
        nodes: str | Path | None = None,
        keep: str | Sequence[str] = (),
        top: int | None = None,
        out: str | Path | None = None,
        overwrite: bool = False,
        notify: Callable[[str], None] = lambda sentence: None,
    ) -> dict[str, list[Any]]:
        """The predictions for all rows of a file or folder as named columns, in the units of the user's table.

        Without ``data`` they are those for the test split of the run's own, or all rows of its file; a data frame is as
        a file of its columns is, and a tensor or an array holds examples as the model takes them. ``out`` is a CSV file
        to write. Rows of a table come with the columns that name them, which the training has left out, and with those
        to ``keep``. A model of two domains maps the examples ``to`` the domain y, or x; one that translates, or
        captions images, writes a text for each. Of images, ``file`` is the first column, and ``notify`` hears of files
        in their folder that are none; of ratings in long form, the columns are ``user``, ``item`` and ``prediction``.
        Of ratings in any form, ``top`` recommends to each user so many items that are not rated, the best first.
        Of time series they are the quantiles of the steps to come after the end of each, by default of those in the
        run's own file. Nodes, pairs of them and graphs are named first; ``nodes`` is the table of the nodes of another
        edge list.
        """
        path = None if out is None else writable(Path(out), overwrite, ".csv")
        columns = joined(predicted(self, data, to, nodes, names_in(keep), top, notify))
        if path is not None:
            write_csv(path, columns)
        return columns

    def write_predictions(
        self,
        file: TextIO,
        data: Any = None,
        *,
        to: Domain | None = None,
        nodes: str | Path | None = None,
        keep: str | Sequence[str] = (),
        top: int | None = None,
        notify: Callable[[str], None] = lambda sentence: None,
    ) -> tuple[int, list[str]]:
        """Write what :meth:`predict` gives to a file that is open, as CSV; the number of rows, and the columns.

        Of a table some rows are read at a time, so that it may be larger than the memory.
        """
        return write_parts(file, predicted(self, data, to, nodes, names_in(keep), top, notify))

    def sample(
        self,
        n: int = 64,
        *,
        given: str | int | None = None,
        guidance: float = 0.0,
        sampler: str | None = None,
        steps: int | None = None,
        seed: int = 0,
        out: str | Path | None = None,
        overwrite: bool = False,
    ) -> Any:
        """New examples drawn from the model, (n, features), or a union of n graphs; ``out`` is a picture or a CSV file.

        Rows of a table are written in its own columns, categories and units, graphs by their edges.
        ``given`` is the class that a class-conditional model draws, or a caption to make images from; ``guidance``
        above 0 makes a class count for more. ``sampler`` names one of the ways in which a model may be drawn from.
        """
        model = self.model_that_can("sample")
        at_least(1, n=n)
        path = None if out is None else writable(Path(out), overwrite, ".png", ".csv")
        table = path is not None and path.suffix.lower() == ".csv"
        info = self.info["data"]
        if path is not None and not table:
            check_drawable(n, info)
        check_room(n, info["shape"], table)
        conditioned = of_class(model, self.info["data"], lambda: self.data, n, given, guidance)
        way = way_of_sampling(conditioned, sampler, steps)
        drawn: Tensor | Graph = conditioned.sample(n, generator=Generator().manual_seed(seed), **way)
        drawn = drawn.detach().flatten(1) if isinstance(drawn, Tensor) else drawn
        if path is not None and table:
            write_csv(path, edge_columns(drawn) if isinstance(drawn, Graph) else sampled_rows(drawn, info, given))
        elif path is not None:
            title = f"{n} samples of {model.name()}{'' if given is None else f', given {given}'}"
            draw_graphs(drawn, path, title) if isinstance(drawn, Graph) else draw_samples(drawn, path, title, info)
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
        model, info = self.model_that_can("generate"), self.info["data"]
        model, info = conditioned(model, None if given is None else str(given), info)
        before, end = text.encode(prompt, info), text.encode_stop(stop, info)
        tokens = model.generate(
            before, steps, temperature=temperature, top_k=top_k, top_p=top_p, stop=end,
            generator=Generator().manual_seed(seed),
        )  # fmt: skip
        return text.decode(without_end(tokens[0], before.shape[1], end), info)

    def most_probable(
        self,
        prompt: str | None = None,
        steps: int = 200,
        *,
        top: int = 5,
        beams: int | None = None,
        exact: bool = False,
        length_penalty: float = 0.0,
        stop: str | None = None,
        given: str | Path | None = None,
    ) -> list[tuple[str, float]]:
        """The ``top`` most probable texts that begin with the prompt, with the log-probability of what follows it.

        A beam search finds them, with ``top`` beams or more, or an ``exact`` search, which misses none. The other
        arguments are those of :meth:`generate`, and ``length_penalty`` that of
        :func:`~deepcanon.decoding.beam.beam_search`.
        """
        model, info = self.model_that_can("beam_search"), self.info["data"]
        model, info = conditioned(model, None if given is None else str(given), info)
        return searched(
            model, info, text.encode(prompt, info), steps, top=top, beams=beams, exact=exact,
            stop=text.encode_stop(stop, info), length_penalty=length_penalty,
        )  # fmt: skip

    def forecast(
        self,
        steps: int | None = None,
        *,
        samples: int = 100,
        data: Any = None,
        seed: int = 0,
        out: str | Path | None = None,
        overwrite: bool = False,
    ) -> dict[str, list[Any]]:
        """Quantiles of the steps after the forecast origins of series, as named columns, with the truth where known.

        Videos are continued from their first half on. Without ``data`` the series are the test split of the run's own;
        those of a file are continued after their end, by default for the horizon of the training. ``out`` is a CSV
        file or a picture to write.
        """
        model = self.model_that_can("forecast")
        path = None if out is None else writable(Path(out), overwrite, ".png", ".csv")
        with as_file(data) as given:
            rows: Any = self.data.split("test") if data is None else ahead(self.folder, model, given)
        preprocessing = self.info["data"]["preprocessing"]
        rows, steps = reaching(rows, steps, preprocessing)
        paths = sample_paths(model, rows, steps, samples, seed)
        if path is not None:
            write_forecasts(path, paths, rows, f"forecasts of {model.name()}", preprocessing)
        return columns_of(paths, rows)

    def translate(self, *given: str, beams: int = 1, length_penalty: float = 0.0, exact: bool = False) -> list[str]:
        """The translation of each text, or the caption of the image in each file: the best that a search finds.

        :meth:`most_probable` finds several of one, with their probabilities.
        """
        model, info = self.model_that_can("translate"), self.info["data"]
        x, lengths = sources(given, info)
        tokens, ends = model.translate(x, **lengths, beams=beams, length_penalty=length_penalty, exact=exact)
        return texts(tokens, ends, info)

    def nearest(self, word: str, n: int = 10) -> list[tuple[str, float]]:
        """The words whose vectors are nearest to that of a word, with their cosines."""
        return word_vectors(self).nearest(word, n)

    def nearest_examples(
        self, data: str | Path | None = None, n: int = 10, *, approximate: bool = False
    ) -> NearExamples:
        """The training examples nearest to each of ``data``, or of the test split, by its codes; about, or exactly."""
        return nearest_examples(self, data, n, approximate=approximate)

    def export(
        self, to: str | Path, *, part: str | None = None, forward: bool = False, overwrite: bool = False
    ) -> float | None:
        """Write the model, or a part of it, as ONNX or safetensors; of a method, the plain model that it wraps.

        The ONNX file of a table takes its columns by name and gives what ``predict`` gives; with ``forward`` it is the
        network alone, which is all that can be written where a column holds dates. It returns how far its output is
        from torch's.
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
        new.write_weights(plain.state_dict(), source, results["steps"], results["seconds"])
        new.write_results({**found.scores, "baseline": found.baseline, "by_class": found.by_class, "says": found.says})
        new.finish()
        new.commit()
        return self._at(folder)

    def _at(self, folder: Path) -> Self:
        """A run in this folder, whose classes are found as those of this one are."""
        run = type(self)(folder)
        run.find = self.find
        return run

    def _add_baselines(self, asked: Blueprint, data: Any, notify: Callable[[str], None]) -> None:
        compared = [name for name in ("supervised", "null_name", "compared") if getattr(asked.cls, name, "")]
        if compared and self.settings["evaluate"]:
            from deepcanon.runs.method_baselines import add_baselines  # it draws, and matplotlib is slow to import

            add_baselines(self, asked, self.data if data is None else of(data), notify)

    def model_that_can(self, method: str) -> Any:
        """The run's model, if it has the method."""
        there = methods_of(self.model)
        if method not in there:
            raise UsageError(f"{self.model.name()} cannot {method}; it can {', '.join(there) or 'only be trained'}")
        return self.model


def folder_for(model: str, data: str, taken: bool = False) -> Path:
    """The folder of a run that was given none: ``runs/MODEL-DATA``, which only ``taken`` allows to be there already."""
    base = Path("runs") / f"{model}-{re.sub(r'[^A-Za-z0-9._-]+', '-', Path(data).stem)}"
    return base if taken else free(base)
