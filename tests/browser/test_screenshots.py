"""The screenshots of the documentation: what they say is what the pages say today."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(ROOT / "docs/screenshots.py"))


def test_screenshots_say_what_the_pages_say(script, browser, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("METIS_HOME", str(tmp_path))
    known = {file.stem: file.read_bytes() for file in (ROOT / "docs/figures").glob("*.png")}
    taken = dict(script["taken"](browser))
    assert taken.keys() == known.keys()
    for name, image in taken.items():
        digest = script["digest"]
        assert digest(known[name]) == digest(image) != b"", f"{name} is stale: run `make docs`"
    pages = "".join(page.read_text("utf-8") for page in (ROOT / "docs").glob("*.md"))
    for name, image in known.items():
        assert f"(figures/{name}.png)" in pages, f"{name} is on no page"
        assert len(image) < 150_000


def test_a_digest_is_of_the_text_and_leaves_the_picture_as_it_is(script, browser):
    page = browser.new_page()
    page.set_content("<p>one</p>")
    image = page.screenshot()
    marked = script["digested"](image, "one")
    assert script["digest"](marked) != script["digest"](script["digested"](image, "two"))
    assert script["digest"](image) == b"" and len(script["digest"](marked)) == 64
    shown = page.evaluate(
        """async (bytes) => {
          const found = await createImageBitmap(new Blob([new Uint8Array(bytes)]));
          return [found.width, found.height];
        }""",
        list(marked),
    )
    assert shown == [1280, 720], "a browser reads it"
    page.close()
