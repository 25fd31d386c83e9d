"""Comparisons without pictures."""

import pytest

from metis.report import figures


@pytest.fixture(scope="module", autouse=True)
def no_pictures():
    """PNG files take seconds, and are tested elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "find_spec", lambda name: None)
        yield
