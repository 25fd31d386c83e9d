"""Headless Chromium, and pages that refuse to end with an error in their console."""

import pytest

from chromium import found, launched


@pytest.fixture(scope="module")
def browser():
    needs = "needs playwright: pip install playwright"
    sync_api = pytest.importorskip("playwright.sync_api", reason=needs)
    with sync_api.sync_playwright() as playwright:
        if found(playwright) is None:
            pytest.skip("needs Chromium: apt-get install chromium, or playwright install chromium")
        with launched(playwright) as started:
            yield started


@pytest.fixture
def opened(browser):
    """Opens addresses; in the end no page may have complained or asked for another host."""
    complaints, contexts = [], []

    def open_page(address, width=1280, scheme="light"):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: _local(request.url, complaints))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def _local(url, complaints):
    if not url.startswith(("file://", "data:", "http://127.0.0.1:")):
        complaints.append(f"asked for {url}")


@pytest.fixture(scope="session")
def overlaps():
    """Finds the labels of charts that overlap on a page."""
    return lambda page: page.evaluate(OVERLAPS)


OVERLAPS = """() => [...document.querySelectorAll("svg")].flatMap((svg) => {
  const boxes = [...svg.querySelectorAll("text")].map((text) =>
    [text.textContent, text.getBoundingClientRect()]);
  return boxes.flatMap(([name, a], place) => boxes.slice(place + 1)
    .filter(([, b]) => a.left < b.right - 1 && b.left < a.right - 1 &&
                       a.top < b.bottom - 3 && b.top < a.bottom - 3)
    .map(([other]) => `${name} | ${other}`));
})"""
