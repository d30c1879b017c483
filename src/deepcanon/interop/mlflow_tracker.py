"""MLflow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deepcanon.interop.trackers import Logged, Tracker

IDENTITY = "deepcanon.run"
"""The tag by which a run that is resumed finds its own in MLflow's store."""
LONGEST = 500
"""The most characters that MLflow takes for the value of a parameter."""


class MLflow(Tracker):
    """An observer that logs a training to MLflow, as a run of ``experiment``.

    ``store`` is an address of MLflow's (``sqlite:///mlflow.db``); without one it is MLflow's own default, or what
    ``MLFLOW_TRACKING_URI`` says.
    """

    package, extra = "mlflow", "deepcanon[mlflow]"

    def __init__(self, experiment: str = "deepcanon", store: str | None = None) -> None:
        super().__init__()
        self.experiment = experiment
        self.store = store
        self._client: Any = None
        self._run = ""

    def _open(self, name: str, identity: str, about: Mapping[str, Any], folder: Path | None) -> Logged:
        from mlflow.tracking import MlflowClient

        self._client = client = MlflowClient(tracking_uri=self.store)
        known = client.get_experiment_by_name(self.experiment)
        experiment = client.create_experiment(self.experiment) if known is None else known.experiment_id
        found = client.search_runs([experiment], filter_string=f"tags.`{IDENTITY}` = '{identity}'", max_results=1)
        if found:
            self._run = found[0].info.run_id
            client.set_terminated(self._run, "RUNNING")
            metrics = [(key, client.get_metric_history(self._run, key)) for key in found[0].data.metrics]
            return {(key, each.step) for key, history in metrics for each in history}
        run = client.create_run(experiment, tags={IDENTITY: identity, "mlflow.runName": name})
        self._run = run.info.run_id
        for key, value in about.items():
            client.log_param(self._run, key, str(value)[:LONGEST])
        return set()

    def _write(self, values: Mapping[str, float], step: int, seconds: float) -> None:
        from mlflow.entities import Metric

        metrics = [Metric(name, value, int(1000 * seconds), step) for name, value in values.items()]
        self._client.log_batch(self._run, metrics=metrics)

    def _close(self, *, finished: bool) -> None:
        self._client.set_terminated(self._run, "FINISHED" if finished else "KILLED")
