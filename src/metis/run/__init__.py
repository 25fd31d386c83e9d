"""What a run writes to its folder: settings, logs, metrics, checkpoints."""
