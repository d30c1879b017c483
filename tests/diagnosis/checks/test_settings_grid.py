from __future__ import annotations

from deepcanon.diagnosis.admission import admit
from deepcanon.diagnosis.doctor import examine
from tests.diagnosis.checks.plain import CLASSES, CROSS_ENTROPY, X, net, report


def test_the_grid_is_made_on_request_and_only_suggests() -> None:
    assert "on request" in report("settings_grid", net()).skipped["settings_grid"]
    patient = admit(net(), (X, CLASSES), loss=CROSS_ENTROPY, budget=20.0)
    patient.reference.asked = 60
    found = examine(patient, thorough=True, only=["settings_grid"])
    assert found.healthy
    assert len(found.notes[0].evidence["bars"]) == 9
