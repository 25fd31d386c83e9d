"""The report of a comparison: the numbers of its table, curves over every cost, its command."""

import json
import re
import shlex
import shutil
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from metis.cli import main
from metis.comparisons import report, table
from metis.comparisons.comparison import is_comparison, read_comparison
from metis.comparisons.verdicts import verdicts

EVIDENCE = Path(__file__).parents[3] / "evidence"
LEVELS = EVIDENCE / "levels-2-to-10"


@pytest.fixture(scope="module")
def levels():
    return read_comparison(LEVELS, None)


def texts(page):
    return unescape(re.sub(r"<[^>]*>", "|", page)).replace("\u00a0", " ")


def test_the_page_has_every_number_of_the_table(tmp_path, levels, capsys):
    assert main(["report", str(LEVELS), "--out", str(tmp_path)]) == 0
    assert (tmp_path / "comparison.md").read_text() == (LEVELS / "comparison.md").read_text()
    page = (tmp_path / "report.html").read_text()
    shown = texts(page)
    for section in table.sections(levels):
        assert section.title in shown
        for row in section.rows:
            assert all(cell in shown for cell in row)
    assert all(said in shown for _, said in verdicts(levels))
    assert "report: " in capsys.readouterr().out


def test_the_page_leads_with_accuracy_over_the_budget_and_has_the_other_costs_later(levels):
    lead, others, *_ = report.figures(levels)
    assert [panel.x_label for panel in lead.panels] == ["rollouts"]
    assert [panel.x_label for panel in others.panels] == ["generated tokens", "total tokens"]
    for panel in (*lead.panels, *others.panels):
        assert panel.reference == levels.baseline.best[1].mean
        for line, variant in zip(panel.lines, levels.everyone, strict=True):
            assert line.series.y == pytest.approx(variant.accuracy.mean(axis=0))
            assert [run.y for run in line.thin] == [tuple(row) for row in variant.accuracy.tolist()]
            assert [run.x for run in line.thin] == [
                tuple(row) for row in variant.spent[panel.x_label].tolist()
            ]
            assert len(line.band) == len(line.series.x) and max(line.band) > 0
            assert min(line.edges[1].y) >= 0


def test_a_band_is_as_wide_as_so_few_runs_are_sure():
    """Student's t at 97.5%: 4.303 for two degrees of freedom, 3.182 for three."""
    assert report.interval(np.array([[0.0], [1.0], [2.0]])) == pytest.approx([4.303 / 3**0.5])
    four = np.array([[0.0], [0.0], [1.0], [1.0]])
    assert report.interval(four) == pytest.approx([3.182 / 12**0.5])
    assert report.interval(four[:2]) == (), "of two runs the lines themselves say more"
    many = report.interval(np.tile(four, (10, 1)))
    assert many[0] > 1.96 * np.tile(four, (10, 1)).std(ddof=1) / 40**0.5


def test_curve_lines_and_tables_come_in_this_order(levels, tmp_path):
    assert main(["report", str(LEVELS), "--out", str(tmp_path)]) == 0
    page = (tmp_path / "report.html").read_text()
    order = ['<figure class="lead">', 'class="verdicts"', "<table>", "<h2>Figures</h2>"]
    places = [page.index(part) for part in order]
    assert places == sorted(places) and page.count('id="show0"') == 1
    assert page.index('id="show0"') < places[0]


def test_every_evidence_has_a_page_that_stands_alone_and_is_small(tmp_path):
    for folder in EVIDENCE.iterdir():
        if is_comparison(folder) and (folder / "comparison.md").exists():
            out = tmp_path / folder.name
            assert main(["report", str(folder), "--out", str(out)]) == 0
            page = (out / "report.html").read_text()
            assert len(page) < 6_000_000 and "<script" not in page
            assert "http://" not in page and "https://" not in page
            assert str(EVIDENCE.parent) not in page


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A comparison on the simulated engine with all logs, each run alone on its device."""
    out = tmp_path_factory.mktemp("compare") / "cmp"
    settings = ["engine=simulated", "steps=24", "evaluate=4", "batch=8", "engine.prompts=200"]
    variants = [
        "--curricula",
        "uniform,metis",
        "--variant",
        "bold:curriculum=metis,curriculum.explore=0.5",
    ]
    words = [*settings, *variants, "--seeds", "0,1", "--jobs", "1", "--baseline", "metis"]
    assert main(["compare", *words, "--out", str(out)]) == 0
    return out


def test_comparing_writes_the_page_beside_the_table(trained):
    page = texts((trained / "report.html").read_text())
    for title in (
        "Competence frontier",
        "Waste",
        "Predictions against outcomes",
        "Predictions over time",
        "Pool occupancy",
        "Time and overhead",
    ):
        assert f"|{title}|" in page
    assert "|share of the training set|" in page and "uniform, bold against metis" in page
    assert "seconds to its own best (ΔT)" in page, "runs were alone on the device"
    expected = (
        "metis compare engine=simulated steps=24 evaluate=4 batch=8 engine.prompts=200 data_seed=0 "
        "--curricula uniform,metis --variant bold:curriculum=metis,curriculum.explore=0.5 "
        "--seeds 0,1 --baseline metis --out cmp"
    )
    assert expected in page
    assert str(trained.parent) not in page


def test_the_report_again_says_the_same_and_keeps_the_baseline(trained):
    before = [(trained / name).read_bytes() for name in ("report.html", "comparison.md")]
    assert main(["report", str(trained)]) == 0
    assert [(trained / n).read_bytes() for n in ("report.html", "comparison.md")] == before


def test_run_folders_without_a_plan_are_made_again_by_the_commands_of_the_page(
    trained, tmp_path, monkeypatch
):
    for run in ("uniform-0", "metis-0"):
        shutil.copytree(trained / run, tmp_path / "found/cmp" / run)
    monkeypatch.chdir(tmp_path)
    assert main(["report", "found/cmp", "--baseline", "metis"]) == 0
    comparison = read_comparison(Path("found/cmp"), None, baseline="metis")
    lines = report.commands(Path("found/cmp"), comparison, None)
    page = texts(Path("found/cmp/report.html").read_text())
    for line in lines:
        assert line in page
        assert main(shlex.split(line)[1:]) == 0
    assert not any(line.startswith("#") for line in lines)
    again = read_comparison(Path("again"), None, baseline="metis")
    pairs = zip(again.everyone, comparison.everyone, strict=True)
    assert all(np.array_equal(one.accuracy, other.accuracy) for one, other in pairs)


def test_commands_that_work_elsewhere_say_where(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    comparison = read_comparison(trained, None)
    remark, first, *_ = report.commands(trained, comparison, None)
    assert remark.startswith("#") and "cmp" in remark and "cmp/uniform-0/config.json" in first


def test_a_run_that_is_not_finished_is_named_and_left_out(trained, tmp_path):
    folder = tmp_path / "cut"
    shutil.copytree(trained, folder)
    log = folder / "bold-1/metrics.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:-3]))
    shutil.rmtree(folder / "bold-0")
    assert main(["report", str(folder)]) == 0
    text = (folder / "comparison.md").read_text()
    assert "- bold-0 not begun" in text and "- bold-1 not finished: its log ends at step" in text
    assert "Not complete." in texts((folder / "report.html").read_text())


def test_hostile_names_stay_text(trained, tmp_path):
    folder = tmp_path / "hostile"
    shutil.copytree(trained, folder)
    config = folder / "metis-0/config.json"
    document = json.loads(config.read_text())
    document["engine"]["model"] = "</pre><script>alert(1)</script>"
    config.write_text(json.dumps(document))
    assert main(["report", str(folder)]) == 0
    page = (folder / "report.html").read_text()
    assert "<script" not in page and "&lt;script&gt;" in page


def test_a_comparison_is_named_alone(trained, capsys):
    assert main(["report", str(trained), str(trained / "metis-0")]) == 2
    assert "is a comparison: name it alone, or name runs" in capsys.readouterr().err
    assert not is_comparison(trained / "metis-0")


def test_seconds_are_not_compared_with_a_run_that_has_no_timings(trained, tmp_path):
    folder = tmp_path / "untimed"
    shutil.copytree(trained, folder)
    (folder / "bold-1/timings.jsonl").unlink()
    assert main(["report", str(folder)]) == 0
    text = (folder / "comparison.md").read_text()
    assert "bold-1 lacks timings: seconds are not compared." in text and "ΔT" not in text


def test_runs_and_problems_are_resampled_by_the_logs_of_validation(trained, tmp_path):
    folder = tmp_path / "tested"
    shutil.copytree(trained, folder)
    assert main(["report", str(folder)]) == 0
    text = (folder / "comparison.md").read_text()
    assert text.count("| runs and problems |") == 2
    (folder / "bold-1/evals.jsonl").unlink()
    assert main(["report", str(folder)]) == 0
    text = (folder / "comparison.md").read_text()
    assert text.count("| runs and problems |") == 1 and "| runs              |" in text


def test_rewards_that_do_not_make_up_the_accuracy_are_not_resampled(trained, tmp_path):
    """Such as those of a log that lacks a prompt of every test."""
    folder = tmp_path / "partial"
    shutil.copytree(trained, folder)
    for log in folder.glob("*/evals.jsonl"):
        rows = log.read_text().splitlines(keepends=True)
        kept = [row for row in rows if json.loads(row)["prompt"] != json.loads(rows[0])["prompt"]]
        assert len(kept) < len(rows)
        log.write_text("".join(kept))
    assert all(variant.problems is None for variant in read_comparison(folder, None).everyone)
    assert all(variant.problems is not None for variant in read_comparison(trained, None).everyone)


@pytest.mark.parametrize("log", ["rollouts.jsonl", "evals.jsonl"])
def test_a_run_with_a_damaged_log_is_named_and_left_out(trained, tmp_path, log):
    folder = tmp_path / "damaged"
    shutil.copytree(trained, folder)
    damaged = folder / "bold-1" / log
    damaged.write_text(damaged.read_text() + "{}\n")
    line = len(damaged.read_text().splitlines())
    assert main(["compare", "--out", str(folder)]) == 1
    text = (folder / "comparison.md").read_text()
    assert f"- bold-1 damaged: {log}, line {line}" in text and "| bold    | 0 " in text
    assert main(["report", str(folder)]) == 0
    assert (folder / "comparison.md").read_text() == text


def test_a_baseline_is_named_for_one_report(trained, tmp_path, capsys):
    plan = (trained / "compare.json").read_bytes()
    words = ["report", str(trained), "--out", str(tmp_path), "--baseline"]
    assert main([*words, "uniform"]) == 0
    assert "## Cost to reach uniform's best" in (tmp_path / "comparison.md").read_text()
    assert (trained / "compare.json").read_bytes() == plan
    assert main([*words, "nobody"]) == 2
    assert "--baseline 'nobody': there are uniform, metis, bold" in capsys.readouterr().err
    assert main(["report", str(trained / "bold-0"), "--baseline", "uniform"]) == 2
    assert "goes with a comparison" in capsys.readouterr().err


def test_another_variant_stands_in_for_a_baseline_without_runs(trained, tmp_path, capsys):
    folder = tmp_path / "without"
    shutil.copytree(trained, folder)
    for seed in (0, 1):
        shutil.rmtree(folder / f"metis-{seed}")
    assert main(["report", str(folder)]) == 0
    said = "metis has no finished run: variants are compared with uniform."
    assert said in (folder / "comparison.md").read_text()
    assert main(["report", str(folder), "--baseline", "metis"]) == 2
    assert f"`metis compare --out {folder}` trains what is left" in capsys.readouterr().err


def test_a_comparison_is_inspected_run_by_run(trained, capsys):
    assert main(["inspect", str(trained)]) == 2
    assert "is a comparison: name one of its runs, bold-0, bold-1," in capsys.readouterr().err


def test_a_variant_that_is_validated_otherwise_is_named_and_not_drawn(trained, tmp_path):
    folder = tmp_path / "unlike"
    shutil.copytree(trained, folder)
    for config in folder.glob("bold-*/config.json"):
        document = json.loads(config.read_text())
        document["engine"]["hardness"] = 3.0
        config.write_text(json.dumps(document))
    assert main(["report", str(folder)]) == 0
    page = texts((folder / "report.html").read_text())
    assert "|Not compared.|" in page and "bold-0, bold-1: engine.hardness = 3.0, not " in page
    accuracy = (folder / "figures/accuracy.svg").read_text()
    assert "uniform" in accuracy and "bold" not in accuracy
