"""Diagnosis of a run: did it learn, what was wasted, did the judge help, what to change next."""

from metis.diagnosis.words import DiagnosisLine, lines

__all__ = ["DiagnosisLine", "lines"]
