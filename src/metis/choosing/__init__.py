"""Which curriculum for a recipe: those that it can use, and what was measured of them."""
