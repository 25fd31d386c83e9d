"""Docs that are made from code are up to date, and what they show runs."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_of_curricula_is_what_make_docs_writes():
    generator = runpy.run_path(str(ROOT / "docs/generate.py"))
    assert (ROOT / "docs/curricula.md").read_text("utf-8") == generator["page"](), "run `make docs`"


def test_text_is_shown_as_it_is():
    plain = runpy.run_path(str(ROOT / "docs/generate.py"))["plain"]
    assert plain("m*B | a <- b") == r"m·B \| a ← b"
    assert plain("2 * 3 * 4 and `a * b|c`") == r"2 \* 3 \* 4 and `a * b|c`"
    assert (
        plain("X, arXiv 2501.00001.") == "X, [arXiv 2501.00001](https://arxiv.org/abs/2501.00001)."
    )


def test_the_example_is_short_runs_and_beats_no_curriculum():
    example = ROOT / "examples/own_curriculum.py"
    assert len(example.read_text().splitlines()) < 40
    walk = (ROOT / "docs/adding-a-curriculum.md").read_text("utf-8")
    assert walk.split("```python\n")[1].split("```")[0] in example.read_text()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    printed = subprocess.check_output([sys.executable, example], text=True, env=environment)
    uniform, own = printed.splitlines()
    assert uniform.startswith("Uniform") and own.startswith("Remember")
    accuracies = [float(line.split("accuracy ")[1].split()[0]) for line in (uniform, own)]
    assert accuracies[1] > accuracies[0] + 0.02
