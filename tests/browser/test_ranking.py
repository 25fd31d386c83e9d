"""The page of a ranking in a browser: it fits, labels do not overlap, long texts are folded."""

import pytest

from judged import judge, rows, written

HOSTILE = "</pre><script>alert(1)</script><b>bold</b> \u202e " + "w" * 5000


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranking")
    given = [*rows(300), *rows(9, HOSTILE)]
    given = [{**row, "id": f"{row['id']}-{place}"} for place, row in enumerate(given)]
    path = written(folder / f"prompts-{'x' * 60}.jsonl", given)
    assert judge(path, folder / "out", "--calibrate", "80") == 0
    return folder / "out/judge.html"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_a_page_fits_and_its_labels_do_not_overlap(opened, overlaps, page, width, scheme):
    shown = opened(page.as_uri(), width, scheme)
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    assert shown.locator("svg").count() == 3
    assert overlaps(shown) == []
    assert shown.locator(".answer").count() == 24
    ground = shown.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")


def test_a_long_text_is_folded_and_opens_as_text(opened, tmp_path):
    path = written(tmp_path / "prompts.jsonl", rows(20, HOSTILE))
    assert judge(path, tmp_path / "out") == 0
    shown = opened((tmp_path / "out/judge.html").as_uri())
    assert shown.locator(".answer b, .answer script").count() == 0
    answer = shown.locator(".answer details").first
    assert not answer.locator("pre").is_visible()
    answer.locator("summary").click()
    assert "</pre><script>alert(1)" in answer.locator("pre").inner_text()
