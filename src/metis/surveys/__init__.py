"""A pool before training: how much of it is all-fail, all-pass or informative, and what to do."""
