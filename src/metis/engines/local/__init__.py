"""Trains a model in this process: transformers for the update, optionally vLLM for rollouts."""
