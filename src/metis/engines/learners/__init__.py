"""Predictors in training: the value model and the attention model."""
