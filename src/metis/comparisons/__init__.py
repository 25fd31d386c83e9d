"""Several curricula on one recipe, over seeds: trained, and compared."""
