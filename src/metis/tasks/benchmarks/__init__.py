"""Benchmarks: sets of prompts to be tested on, each asked and scored by a task."""
