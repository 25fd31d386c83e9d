"""The live view of a comparison."""

from rich.console import Console

from metis.comparisons import schedule
from metis.comparisons.schedule import ComparisonView


def test_a_run_may_end_while_its_bar_is_drawn(tmp_path, monkeypatch):
    view = ComparisonView(Console(quiet=True), 1)

    def ends(folder):
        view.closing.set()
        monkeypatch.setattr(schedule, "progress", lambda folder: (5, ""))
        view.ended("a", None)
        return 4, ", accuracy 0.500 at step 4"

    monkeypatch.setattr(schedule, "PERIOD", 0.0)
    monkeypatch.setattr(schedule, "progress", ends)
    view.began("a", tmp_path, steps=5)
    view._look()
    assert not view.tasks and view.done == 1
