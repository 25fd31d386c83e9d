"""The traces of a run: records, models, and the meaning of every number."""
