"""Arms: parts of the pool that bandits and schedules choose between."""
