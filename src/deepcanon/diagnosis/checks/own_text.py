"""Generated text: it repeats itself no more than real text, and the model finds it about as probable.

Measured after a trial (or of a run's weights), by sampling at temperature 1: the share of groups of four tokens that a
row has had before, next to that in the data; the entropy of the tokens; and the nats per token of own text less those
of real continuations (exposure). A model that copies its input writes the same token for ever, which it finds certain;
one whose sampler is not that of its likelihood writes what it finds improbable. The thresholds lie outside what healthy
trainings show; another seed must end there, too.

Papers: Holtzman et al., 2020, https://arxiv.org/abs/1904.09751; Bengio et al., 2015, https://arxiv.org/abs/1506.03099
"""

from __future__ import annotations

from collections.abc import Iterator

from deepcanon.diagnosis import thresholds
from deepcanon.diagnosis.families.after_training import ours, trained
from deepcanon.diagnosis.families.generated_text import generated_text, writes_text
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip

STAGE, PLACE = "family", 20
STEPS = 40
"""So many steps are enough to learn to copy."""
LEAST = 0.3
"""So much more repetition than in the data is never a fault."""
NATS = 2.0
"""So many nats per token by which own text is less probable than real text are never a fault."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    batch = patient.batch(16)
    if not writes_text(ours(patient), batch):
        raise Skip("it writes no text")
    found = generated_text(trained(patient, least=STEPS), batch)
    patient.note(**found, excess=_excess(found), exposed=max(0.0, found["exposure"]))
    repeats = max(LEAST, thresholds.of("own_text", "excess").high)
    strays = max(NATS, thresholds.of("own_text", "exposed").high)
    if _excess(found) <= repeats and found["exposure"] <= strays:
        return
    again = generated_text(trained(patient, seed=1, least=STEPS), batch)
    confirmed = "the run's own weights" if patient.run is not None else "another seed ends there, too"
    if min(_excess(found), _excess(again)) > repeats:
        yield Diagnosis(
            cause="repetition",
            evidence=found,
            advice="check that the target of a token is the next one; train longer, or on text that repeats less",
            where="generated text",
            confirmed_by=confirmed,
            margin=_excess(found) / repeats,
        )
    elif min(found["exposure"], again["exposure"]) > strays:
        yield Diagnosis(
            cause="sampler and likelihood disagree",
            evidence=found,
            advice="let generation go on from the very state that the likelihood is computed by",
            where="generate and step_log_probs",
            confirmed_by=confirmed,
            margin=found["exposure"] / strays,
        )


def _excess(found: dict[str, float]) -> float:
    """The share of repeated groups beyond that in the data."""
    return max(0.0, found["repeated"] - found["repeated_in_data"])
