"""Turns a recipe into verl's command line, and checks it before anything starts."""
