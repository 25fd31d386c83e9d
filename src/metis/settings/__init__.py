"""The settings of a run, without its engine: keys, validation, task, curriculum and judge."""
