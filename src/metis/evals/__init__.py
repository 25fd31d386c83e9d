"""Evaluation: a model on benchmarks, asked and scored exactly as in training."""
