"""The parser of a written judgment (METIS, Eq. 7), under its public name."""

from metis.curricula.judges.reason import parse_variance

__all__ = ["parse_variance"]
