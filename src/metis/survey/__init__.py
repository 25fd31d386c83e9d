"""A pool before training: how much of it is unsolved, solved or informative, and what to do."""
