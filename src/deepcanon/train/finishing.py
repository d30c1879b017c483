"""The end of a training: its weights are written before they are measured and drawn, so that nothing can lose them."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from deepcanon.core.errors import EvaluationError
from deepcanon.core.memory import ran_out
from deepcanon.train.health import examine_at_end, overfitting
from deepcanon.train.progress import say
from deepcanon.train.result import Result

if TYPE_CHECKING:
    from deepcanon.runs.folder import RunFolder
    from deepcanon.train.trainer import Trainer


def finish(trainer: Trainer) -> Result:
    """Leave the chosen weights in the model and the run's folder; then measure, write the results and draw."""
    seconds, weights, run = trainer.seconds(), _choose_weights(trainer), trainer.run
    model, data = trainer.model.eval(), trainer.data
    if run is not None:
        trainer.world.first_does(lambda: _write_weights(trainer, run, weights, seconds))
    with _nothing_lost(trainer, "evaluation"):
        found = examine_at_end(model, data, trainer.settings)
    folder = None if run is None else run.dir
    result = Result(
        model, folder, trainer.step, seconds, weights, **found.scores, history=trainer.log.history,
        baseline=found.baseline, by_class=found.by_class, says=found.says,
        course=overfitting(trainer.watch, trainer.step),
    )  # fmt: skip
    if run is not None:
        with _nothing_lost(trainer, "drawing"):
            trainer.world.first_does(lambda: _write_results(trainer, run, result))
    elif not trainer.quiet:  # of a run the caller prints them
        for sentence in [*result.says, *result.course]:
            say(sentence)
    return result


def _choose_weights(trainer: Trainer) -> str:
    """Leave in the model the weights that the settings ask for, and say which they are."""
    watch = trainer.watch
    if watch is not None and watch.weights:  # none where the last ones are to be kept
        trainer.model.load_state_dict(watch.weights)
        return f"best by validation {watch.name}, of step {watch.best_step}"
    if trainer.average.active:
        trainer.average.copy_to_model()
        return "moving average"
    return "last"


def _write_weights(trainer: Trainer, run: RunFolder, weights: str, seconds: float) -> None:
    run.refuse_links()
    run.write_weights(trainer.model.state_dict(), weights, trainer.step, seconds)


def _write_results(trainer: Trainer, run: RunFolder, result: Result) -> None:
    names = ("train", "valid", "test", "baseline", "by_class", "says", "course")
    run.write_results({name: getattr(result, name) for name in names})
    if trainer.settings["pictures"]:
        from deepcanon.pictures import draw_run  # matplotlib is slow to import and only a run needs it

        draw_run(trainer.model, trainer.data, result.history, run.pictures, trainer.settings["seed"])
    run.finish()


@contextmanager
def _nothing_lost(trainer: Trainer, what: str) -> Iterator[None]:
    """Whatever a model's methods raise after the training, as a sentence that says where its weights are."""
    try:
        yield
    except Exception as error:
        if ran_out(error):  # which the trainer has a sentence for
            raise
        trainer.note(status="stopped")
        reason = f"{type(error).__name__}: {error}{_place(error)}"
        if trainer.run is None:
            raise EvaluationError(
                f"the model is trained, and its weights are in it, but its {what} failed: {reason}"
            ) from error
        raise EvaluationError(
            f"the model is trained, and its weights are in {trainer.run.weights}, but its {what} failed: {reason}; "
            f"mend the cause and finish the run by: deepcanon resume {trainer.run.dir}"
        ) from error


def _place(error: BaseException) -> str:
    """The last line of someone else's code that an error went through, torch's aside; else the last line."""
    frames = traceback.extract_tb(error.__traceback__)
    libraries = (str(Path(__file__).parents[1]), str(Path(torch.__file__).parent))
    theirs = [frame for frame in frames if not frame.filename.startswith(libraries)]
    return "".join(f" ({Path(frame.filename).name}, line {frame.lineno})" for frame in (theirs or frames)[-1:])
