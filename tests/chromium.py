"""Chromium for tests and benchmarks: the system's, or the one that playwright has installed."""

import os
import shutil
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def found(playwright: Any) -> str | None:
    """The path of a browser; None where there is none."""
    own = playwright.chromium.executable_path
    return next(filter(None, map(shutil.which, NAMES)), own if Path(own).exists() else None)


def launched(playwright: Any) -> AbstractContextManager[Any]:
    """A headless browser; as root it has no sandbox."""
    words = ["--no-sandbox"] if os.geteuid() == 0 else []
    browser: AbstractContextManager[Any] = playwright.chromium.launch(
        executable_path=found(playwright), args=words
    )
    return browser


if __name__ == "__main__":
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        sys.exit(found(started) is None)
