"""Takes the screenshots of docs/figures, from runs in evidence/. `make docs`.

    python docs/screenshots.py            take those that are stale, and name them
    python docs/screenshots.py --all      take all of them, after a change of how pages look
    python docs/screenshots.py --check    name those that are stale, and exit with 1 if there is any

A screenshot keeps a digest of the text that it shows, since its pixels differ from browser to
browser: it is stale when the same page says something else today.
"""

import hashlib
import io
import os
import struct
import sys
import tempfile
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.terminal_theme import MONOKAI

from metis import report
from metis.comparisons.report import redraw
from metis.view.browse.server import Server
from metis.view.inspection import inspect

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs/figures"
RUN, COMPARISON = (
    Path("evidence/quickstart-cpu/seed-0"),
    Path("evidence/judge-in-training/dapo-hard"),
)
STEP, ANSWER = 8, "8/arithmetic:74+5/1"
COLUMNS = 100
SIGNATURE, KEYWORD = b"\x89PNG\r\n\x1a\n", b"Text-SHA256\0"
TEXT = """(selector) => [...document.querySelectorAll(selector)].map((element) => {
  const copy = element.cloneNode(true);
  copy.querySelectorAll(".pager .soft, svg text, style").forEach((each) => each.remove());
  return copy.textContent.replace(/\\s+/g, " ").trim();
}).join("\\n")"""
TERMINAL = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: #14171c; color: #e8eaee; }}
pre {{ margin: 0; padding: 18px 22px; font: 14px/1.35 ui-monospace, Menlo, Consolas,
  "DejaVu Sans Mono", monospace; }}
b {{ color: #58aee6; font-weight: 400; }}
</style><pre>{}</pre>"""


class Shot(NamedTuple):
    """A page, the size of its window, the elements whose text must be that of today, and one that
    is there when the page is."""

    address: str
    wide: int
    high: int
    shown: str
    ready: str


@contextmanager
def pages() -> Iterator[dict[str, Shot]]:
    """The pages to take, while they are served."""
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary)
        os.environ["METIS_HOME"] = str(out / "home")
        report.write([RUN], out / "report")
        redraw(COMPARISON, out / "comparison", "")
        (out / "terminal.html").write_text(terminal(), "utf-8")
        with Server([RUN], 0) as server:
            for each in server.opened:
                each.index.update()
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield shots(out, f"{server.url}#/0")
            finally:
                server.shutdown()
                thread.join()


def shots(out: Path, view: str) -> dict[str, Shot]:
    answer = f"{view}/answer/train/{ANSWER.replace('+', '%2B').replace(':', '%3A')}"
    drawn = {name: (out / name / "report.html").as_uri() for name in ("report", "comparison")}
    return {
        "report": Shot(drawn["report"], 1000, 900, "header, .diagnosis, .cards, .answers", "h1"),
        "comparison": Shot(drawn["comparison"], 1000, 880, "header, .verdicts, .about", "h1"),
        "view-step": Shot(f"{view}/step/{STEP}", 1000, 720, "main", ".sides"),
        "view-answer": Shot(answer, 1000, 640, "main", ".siblings a"),
        "terminal": Shot((out / "terminal.html").as_uri(), 890, 0, "pre", "pre"),
    }


def terminal() -> str:
    """What `metis inspect` prints of a step and of an answer."""
    console = Console(record=True, width=COLUMNS, force_terminal=True, file=io.StringIO())
    for words, shown in (
        (f"--step {STEP}", inspect(RUN, step=STEP)),
        (f"--answer {ANSWER}", inspect(RUN, answer=ANSWER)),
    ):
        console.print(f"[bold]$ metis inspect {RUN} {words}", highlight=False)
        for each in shown:
            console.print(each)
        console.print()
    return TERMINAL.format(_html(console).rstrip())


def _html(console: Console) -> str:
    return console.export_html(inline_styles=True, code_format="{code}", theme=MONOKAI)


def taken(browser: Any) -> Iterator[tuple[str, bytes]]:
    """The names of the screenshots, and each as a PNG that has the digest of its text.

    The working directory is the one that commands on the pages are for.
    """
    os.chdir(ROOT)
    with pages() as found:
        for name, shot in found.items():
            context = browser.new_context(
                viewport={"width": shot.wide, "height": shot.high or 300}, color_scheme="light"
            )
            page = context.new_page()
            page.goto(shot.address)
            page.locator(shot.ready).first.wait_for()
            said = page.evaluate(TEXT, shot.shown)
            yield name, digested(page.screenshot(full_page=not shot.high), said)
            context.close()


def digested(image: bytes, said: str) -> bytes:
    """A PNG with the digest of a text as its first chunk of text."""
    content = KEYWORD + hashlib.sha256(said.encode()).hexdigest().encode()
    chunk = b"tEXt" + content
    packed = struct.pack(">I", len(content)) + chunk + struct.pack(">I", zlib.crc32(chunk))
    end = len(SIGNATURE) + 25  # the header is the first chunk, of 13 bytes and 12 around them
    return image[:end] + packed + image[end:]


def digest(image: bytes) -> bytes:
    """The digest that a PNG has; empty where it has none."""
    _, _, after = image.partition(KEYWORD)
    return after[:64]


def main(check: bool, everything: bool) -> int:
    """Take the screenshots that are stale, or all; only name them, where that is asked for."""
    from playwright.sync_api import sync_playwright

    sys.path.insert(0, str(ROOT / "tests"))
    from chromium import launched

    stale = []
    with sync_playwright() as playwright, launched(playwright) as browser:
        for name, image in taken(browser):
            file = FOLDER / f"{name}.png"
            if everything or not file.exists() or digest(file.read_bytes()) != digest(image):
                stale.append(name)
                if not check:
                    file.write_bytes(image)
    for name in stale:
        print(f"{'stale' if check else 'taken'}: docs/figures/{name}.png")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:], "--all" in sys.argv[1:]))
