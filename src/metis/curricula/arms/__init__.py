"""Arms of bandits and schedules: parts of the training set."""
