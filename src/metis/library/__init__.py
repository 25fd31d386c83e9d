"""The commands as calls: `metis.train`, `survey`, `compare`, `evaluate` and `load`."""
