"""For all tests: no time limit on the examples of a property, which a busy machine would miss."""

from hypothesis import settings

settings.register_profile("metis", deadline=None)
settings.load_profile("metis")
