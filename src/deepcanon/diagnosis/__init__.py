"""The doctor of trainings: is a training healthy, and if not, why? Each cause is confirmed before it is named."""

from deepcanon.diagnosis.doctor import doctor
from deepcanon.diagnosis.health_report import Diagnosis, Report
from deepcanon.lazy import listing

__all__ = ["Diagnosis", "Report", "doctor"]
__dir__ = listing(__name__)
