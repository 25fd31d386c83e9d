"""Surveys of a training set: how much is all-fail, all-pass or informative, and what to do."""
