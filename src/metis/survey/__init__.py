"""A pool before training: how much of it is dead, solved or informative, and what to do."""
