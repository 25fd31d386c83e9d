"""Curricula that a recipe can use, with the cost that each had in measured runs."""
