"""Pool occupancy: shares by category, against the pool's where it is known."""

import json

import pytest

from metis.core import Prompt
from metis.errors import MetisError
from metis.report import charts
from metis.report.subjects import each
from metis.run import composition
from metis.run.recorded import read_run


@pytest.fixture
def run(tmp_path):
    def make(steps, pool=None, name="run"):
        path = tmp_path / name
        path.mkdir()
        (path / "config.json").write_text("{}")
        (path / "metrics.jsonl").write_text("")
        rows = [
            {"step": step, "prompt": f"{place}", "category": category, "rewards": [0.0, 1.0]}
            for step, categories in enumerate(steps, start=1)
            for place, category in enumerate(categories)
        ]
        (path / "rollouts.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        if pool is not None:
            composition.write_composition(path, [Prompt(str(i), "", c) for i, c in enumerate(pool)])
        return read_run(path)

    return make


def figure(*runs):
    return charts.occupancy_figure(each(runs), window=1)


def test_every_category_has_a_panel_with_its_share_of_the_pool(run):
    found = figure(run(["aab", "bbb", "a"], pool="aaabc"))
    a, b, c = found.panels
    assert [panel.y_label for panel in found.panels] == ["a", "b", "c"]
    assert a.lines[0].series.y == pytest.approx((2 / 3, 0.0, 1.0))
    assert b.lines[0].series.y == pytest.approx((1 / 3, 1.0, 0.0))
    assert c.lines[0].series.y == (0.0, 0.0, 0.0), "starved, and seen to be"
    assert [panel.reference for panel in found.panels] == [0.6, 0.2, 0.2]


def test_without_the_pool_its_share_is_not_drawn_and_the_caption_says_so(run):
    found = figure(run(["ab"]))
    assert all(panel.reference is None for panel in found.panels)
    assert found.caption.endswith(charts.UNKNOWN)
    other = figure(run(["ab"], "ab", "one"), run(["ab"], "aab", "two"))
    assert all(panel.reference is None for panel in other.panels), "pools that differ"


def test_one_category_or_no_log_is_no_figure(run):
    assert figure(run(["aaa"], pool="aa")) is None
    bare = run([], name="bare")
    (bare.folder / "rollouts.jsonl").unlink()
    assert figure(bare) is None


def test_of_many_categories_the_rarest_share_a_panel_and_numbers_are_in_order(run):
    names = [f"level {n}" for n in range(1, 15)]
    pool = [name for place, name in enumerate(names) for _ in range(20 - place)]
    found = figure(run([names], pool=pool))
    labels = [panel.y_label for panel in found.panels]
    assert labels == [*names[:11], "3 rarer categories"]
    assert found.panels[-1].lines[0].series.y == (pytest.approx(3 / 14),)
    assert sum(panel.reference for panel in found.panels) == pytest.approx(1.0)


def test_a_damaged_composition_is_one_clear_line(tmp_path):
    assert composition.read_composition(tmp_path) == {}
    (tmp_path / "pool.json").write_text('{"categories": [1]}')
    with pytest.raises(MetisError, match=r"pool.json' is damaged: restore or delete it"):
        composition.read_composition(tmp_path)
