"""Configurations for verl's own command line."""
