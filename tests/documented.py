"""The `metis` commands in code blocks of the docs."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [
    page
    for pattern in ("*.md", "docs/**/*.md", "recipes/**/*.md", "evidence/*.md")
    for page in sorted(ROOT.glob(pattern))
]


def commands():
    """Pages and the lines of their code blocks that call `metis`, without comments."""
    for page in PAGES:
        text = page.read_text("utf-8")
        for block in re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.S | re.M):
            for line in re.sub(r"\\\n\s*", " ", block).splitlines():
                if called := re.match(r"\s*(?:[A-Z_]+=\S+ )*metis (.+)", line):
                    yield page.relative_to(ROOT).as_posix(), called[1].partition(" #")[0].strip()


COMMANDS = sorted({command: page for page, command in commands()}.items())
