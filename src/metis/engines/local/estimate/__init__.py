"""Estimates of a step's memory and seconds, before a model is loaded."""
