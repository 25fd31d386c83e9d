"""`metis view` in a browser: filters, details, two runs, hostile text, and ten thousand groups."""

import json
import re
import runpy
import threading
from pathlib import Path

import pytest

from metis.cli import main
from metis.run.recorded import read_runs
from metis.view.browse.server import Server

MADE = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks/view.py"), run_name="view")
HOSTILE = "</script><img src=x onerror=alert(1)><b>bold</b>"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("view")
    for name in ("one", "two"):
        MADE["make"](folder / name, groups=200)
    with (folder / "two/rollouts.jsonl").open("a") as log:
        row = {"step": 5, "prompt": HOSTILE, "category": HOSTILE, "rewards": [0.0, 0.0]}
        log.write(json.dumps({**row, "text": HOSTILE, "answers": [HOSTILE]}) + "\n")
    return folder


@pytest.fixture
def url(runs):
    with Server(read_runs([runs / "one", runs / "two"]), 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.url
        server.shutdown()
        thread.join()


def rows(page, pane=0):
    return page.locator(".pane").nth(pane).locator(".rows tbody tr")


def expect(found):
    from playwright.sync_api import expect

    return expect(found)


def expect_count(page, text, pane=0):
    counted = page.locator(".pane").nth(pane).locator(".pager > span").first
    expect(counted).to_have_text(text)


@pytest.mark.parametrize("width", [390, 1280])
def test_it_opens_and_filters(opened, url, width):
    page = opened(url, width)
    rows(page).first.wait_for()
    expect_count(page, "200 of 1,600 rows")
    expect(rows(page)).to_have_count(50)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_label("Category").select_option("level 3")
    expect_count(page, "40 of 1,600 rows")
    page.get_by_label("Reason").select_option("explore")
    expect_count(page, "4 of 1,600 rows")
    page.get_by_label("Reason").select_option("")
    page.get_by_label("Text").fill("NUMBER 2 plus 7?")
    page.get_by_label("Category").select_option("")
    expect_count(page, "1 of 1,600 rows")
    page.get_by_label("Text").fill("")
    page.get_by_label("Outcome").select_option("not rolled out")
    page.get_by_label("Step").fill("3")
    expect_count(page, "350 of 1,600 rows")


def test_columns_sort_and_pages_turn_by_the_keyboard(opened, url):
    page = opened(url)
    rows(page).first.wait_for()
    head = page.get_by_role("button", name="v̂")
    head.press("Enter")
    head.press("Enter")
    expect(page.locator(".rows th[aria-sort=descending]")).to_have_count(1)
    values = [float(text) for text in page.locator(".rows td[data-name='v̂']").all_inner_texts()]
    assert values == sorted(values, reverse=True) and len(values) == 50
    page.get_by_role("button", name="Next").press("Enter")
    page.get_by_text("2 / 4", exact=True).wait_for()
    lower = [float(text) for text in page.locator(".rows td[data-name='v̂']").all_inner_texts()]
    assert max(lower) <= min(values)


def test_a_prompt_says_why_it_was_chosen_and_what_it_earned(opened, url):
    page = opened(url)
    page.get_by_role("button", name="arithmetic:400", exact=True).press("Enter")
    dialog = page.get_by_role("dialog")
    text = dialog.inner_text()
    assert "Uniform slot" in text
    assert "What is number 1 plus 0?" in text and "Answer 1 reward" in text
    expect(dialog.locator("progress")).to_have_count(2)
    page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()
    page.get_by_role("button", name="arithmetic:400", exact=True).click()
    dialog.get_by_role("button", name="Every step of this prompt").click()
    expect_count(page, "1 of 1,600 rows")
    expect(page).to_have_url(re.compile("text=arithmetic%3A400"))


def test_the_address_follows_the_prompt_that_is_open(opened, url):
    page = opened(f"{url}#right=1")
    rows(page, 1).first.wait_for()
    button = page.locator(".pane").nth(1).get_by_role("button", name="arithmetic:400", exact=True)
    button.click()
    expect(page).to_have_url(re.compile(r"open=1%2F\d+%2Farithmetic%3A400"))
    again = opened(page.url)
    dialog = again.get_by_role("dialog")
    expect(dialog).to_have_count(1)
    expect(dialog.locator("#detail-title")).to_have_text("arithmetic:400")
    again.keyboard.press("Escape")
    expect(again).not_to_have_url(re.compile("open="))


def test_two_runs_stand_side_by_side_under_the_same_filters(opened, url):
    page = opened(f"{url}#right=1")
    rows(page, 1).first.wait_for()
    page.get_by_label("Text").fill("plus 7?")
    expect_count(page, "4 of 1,600 rows")
    expect_count(page, "4 of 1,601 rows", pane=1)
    left, right = (page.locator(".pane").nth(side).bounding_box() for side in (0, 1))
    assert left["x"] + left["width"] <= right["x"] and left["y"] == right["y"]


def test_text_of_a_run_stays_text(opened, url):
    page = opened(f"{url}#left=1&text=onerror")
    rows(page).first.wait_for()
    expect_count(page, "1 of 1,601 rows")
    rows(page).first.get_by_role("button").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("pre").last).to_have_text(HOSTILE)
    assert page.locator("main img, main b").count() == 0


def test_a_damaged_run_says_so(opened, url, runs):
    log = runs / "one/judgments.jsonl"
    whole = log.read_bytes()
    try:
        log.write_bytes(whole[:-20] + b"\n")
        page = opened(url)
        alert = page.get_by_role("alert")
        alert.wait_for()
        assert "judgments.jsonl, line 1600, is damaged" in alert.inner_text()
    finally:
        log.write_bytes(whole)


def test_ten_thousand_groups_answer_a_filter_at_once_from_a_folder(opened, tmp_path):
    """Half a second is promised on an idle machine; a busy one gets three goes, and more time."""
    MADE["make"](tmp_path / "run")
    assert main(["view", str(tmp_path / "run"), "--bundle", str(tmp_path / "page")]) == 0
    page = opened((tmp_path / "page/index.html").as_uri())
    rows(page).first.wait_for()
    expect_count(page, "10,000 of 80,000 rows")
    seconds = MADE["timed"](page, of=min)
    assert max(seconds.values()) < 1.5, seconds
