"""The policy as the judge of its own curriculum: asked, read, and trained on what came of it."""

from metis.curricula.judge.reply import Failure, parse, parse_variance
from metis.curricula.judge.settings import Judge

__all__ = ["Failure", "Judge", "parse", "parse_variance"]
