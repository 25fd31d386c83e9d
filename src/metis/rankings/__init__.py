"""A file of prompts ranked by expected reward variance, before anyone trains."""
