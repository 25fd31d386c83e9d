"""Reports in a browser: drawn, no wider than a phone, and worked by the keyboard."""

from pathlib import Path

import pytest

from metis.cli import main
from metis.run.transcripts import Transcripts

EVIDENCE = Path(__file__).parents[2] / "evidence"


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    out = tmp_path_factory.mktemp("reports")
    for name in ("hopeless-90", "levels-2-to-10", "quickstart-cpu/seed-0"):
        assert main(["report", str(EVIDENCE / name), "--out", str(out / name)]) == 0
    return out


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    """The report of a run whose folder, prompts and answers have names and words without an end."""
    folder = tmp_path_factory.mktemp("runs") / f"a-run-{'x' * 60}"
    words = ["engine=simulated", "engine.failures=0.3", "steps=12", "batch=4"]
    assert main(["train", *words, "--out", str(folder)]) == 0
    asked = [{"role": "user", "content": "Repeat after me: " + "a" * 500}]
    said = [{"role": "assistant", "content": "<b>" + "b" * 5000}]
    row = {"messages": said, "reward": 1.0, "tokens": 9, "truncated": False}
    head = {"step": 1, "prompt": "p", "category": "", "messages": asked, "n": 2}
    Transcripts(folder).append("train", head, [row, {**row, "reward": 0.0}])
    assert main(["report", str(folder)]) == 0
    return folder / "report.html"


@pytest.mark.parametrize("width", [390, 1280])
def test_a_diagnosis_and_answers_fit_and_a_folded_answer_opens(opened, mine, width):
    page = opened(mine.as_uri(), width)
    assert "of the rollouts failed" in page.locator(".diagnosis").inner_text()
    answer = page.locator(".answer details").first
    assert not answer.locator("pre").is_visible()
    answer.locator("summary").click()
    assert answer.locator("pre").inner_text().startswith("<b>bbb")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["hopeless-90", "quickstart-cpu/seed-0"])
def test_a_report_fits_and_its_labels_do_not_overlap(
    opened, overlaps, reports, name, width, scheme
):
    page = opened((reports / name / "report.html").as_uri(), width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("svg").count() > 5
    assert overlaps(page) == []
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")


def test_arms_are_hidden_and_shown_by_the_keyboard(opened, reports):
    page = opened((reports / "levels-2-to-10/report.html").as_uri())
    curves, box = page.locator("svg .line.s1"), page.locator("#show1")
    count = curves.count()
    assert count >= 4 and curves.first.is_visible()
    box.focus()
    page.keyboard.press("Space")
    assert not any(curves.nth(place).is_visible() for place in range(count))
    assert page.locator("svg .line.s0").first.is_visible()
    page.keyboard.press("Space")
    assert curves.first.is_visible()
