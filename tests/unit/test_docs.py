"""Docs that are made from code are up to date, and what they show runs."""

import json
import os
import re
import runpy
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

import metis
from metis.cli import main
from metis.curricula import CURRICULA
from metis.curricula.cards import curriculum_card

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "recipes/**/*.md", "evidence/*.md", "examples/*.ipynb")
    for path in ROOT.glob(pattern)
)


def prose(page: Path) -> str:
    """A page without its code blocks."""
    return re.sub(r"^ *```.*?^ *```", "", page.read_text("utf-8"), flags=re.S | re.M)


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", prose(page), re.M):
        shown = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        repeats = sum(bool(re.fullmatch(rf"{slug}(-\d+)?", other)) for other in found)
        found.add(f"{slug}-{repeats}" if repeats else slug)
    return found


@pytest.mark.parametrize("name", PAGES)
def test_every_link_of_a_page_leads_somewhere(name):
    page = ROOT / name
    links = re.findall(r"\]\(\s*([^)\s]+)\s*\)", prose(page))
    for link in links:
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), f"{name} links to {link}: there is no such file"
        assert not anchor or anchor in anchors(target), f"{name} links to {link}: no such heading"


def site() -> dict[str, list[str]]:
    """The pages of each part of the site's navigation."""
    parts = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]
    return {
        name: [page if isinstance(page, str) else next(iter(page.values())) for page in pages]
        for part in parts
        for name, pages in part.items()
    }


def test_the_site_has_five_parts_and_at_most_25_pages():
    assert list(site()) == ["Start", "Guides", "Concepts", "Reference", "Evidence"]
    assert sum(map(len, site().values())) <= 25


@pytest.mark.parametrize("part", ["Start", "Guides", "Concepts", "Evidence"])
def test_a_page_is_short_unless_things_are_looked_up_in_it(part):
    for page in site()[part]:
        text = prose(ROOT / "README.md" if page == "index.md" else ROOT / "docs" / page)
        words = [word for word in text.split() if re.search(r"\w", word)]
        assert len(words) <= 1500, f"{page} has {len(words)} words"


@pytest.mark.parametrize("source", ["src", "benchmarks", "examples"])
def test_every_page_that_code_names_exists(source):
    for path in (ROOT / source).rglob("*.*"):
        if path.suffix in {".py", ".toml", ".yaml"}:
            for named in re.findall(r"docs/[\w/-]+\.md", path.read_text("utf-8")):
                assert (ROOT / named).exists(), f"{path.relative_to(ROOT)} names {named}"


@pytest.mark.parametrize("name", ["api", "curricula", "metrics", "settings"])
def test_a_page_is_what_make_docs_writes(name):
    generator = runpy.run_path(str(ROOT / f"docs/{name}_page.py"))
    assert (ROOT / f"docs/{name}.md").read_text("utf-8") == generator["page"](), "run `make docs`"


def test_the_versions_in_the_docs_are_those_of_the_tests():
    table = (ROOT / "docs/install.md").read_text("utf-8").partition("## Versions")[2]
    pinned = ["tests/constraints.txt", "tests/on_trl/requirements.txt"]
    pinned += ["tests/oldest.txt", "tests/newest.txt"]
    text = "\n".join((ROOT / name).read_text("utf-8") for name in [*pinned, "Makefile"])
    text += (ROOT / "tests/on_verl/requirements.txt").read_text("utf-8")
    found = re.findall(r"\b(?:torch==|transformers==|trl==|verl==|TORCH \?= )([\d.]+\d)", text)
    assert len(found) >= 10
    for version in found:
        named = re.search(rf"[ \[]{re.escape(version)}", table)
        assert named, f"{version} is not in docs/install.md"


def test_every_knob_is_described():
    section = runpy.run_path(str(ROOT / "docs/settings_page.py"))["section"]

    @dataclass
    class Knobs:
        """Some of them.

        one, two  are described
                  on two lines
        """

        one: int = 1
        two: str = "a"

    assert section("T", Knobs, "k.").splitlines()[-2:] == [
        "| `k.one` | `1` | are described on two lines |  |",
        '| `k.two` | `"a"` | are described on two lines |  |',
    ]
    Knobs.__doc__ = "Some.\n\none  is described"
    with pytest.raises(KeyError, match="two"):
        section("T", Knobs, "k.")
    Knobs.__doc__ = "Some.\n\none, two, three  are described"
    with pytest.raises(ValueError, match="Knobs has no three"):
        section("T", Knobs, "k.")


def test_needs_are_told_by_preset_where_presets_differ():
    described = runpy.run_path(str(ROOT / "docs/curricula_page.py"))["described"]
    assert "hidden states of prompts (`readout`)" in described("metis")
    assert "sampled replies of the policy (`paper`)" in described("metis")
    assert described("uniform") == "nothing"


def test_text_is_shown_as_it_is():
    plain = runpy.run_path(str(ROOT / "docs/curricula_page.py"))["plain"]
    assert plain("m*B | a <- b") == r"m·B \| a ← b"
    assert plain("2 * 3 * 4 and `a * b|c`") == r"2 \* 3 \* 4 and `a * b|c`"
    assert (
        plain("X, arXiv 2501.00001.") == "X, [arXiv 2501.00001](https://arxiv.org/abs/2501.00001)."
    )


@pytest.mark.parametrize("name", ["step.svg", "curricula.svg"])
def test_a_drawing_is_what_make_docs_draws(name):
    drawn = runpy.run_path(str(ROOT / "docs/drawings.py"))["DRAWINGS"][name]()
    assert (ROOT / "docs/figures" / name).read_text("utf-8") == drawn, "run `make docs`"


def test_readme_says_when_every_curriculum_acts():
    readme = (ROOT / "README.md").read_text("utf-8")
    said, acts = {}, ""
    for row in (
        readme.split("## Curricula")[1].split("|---|---|---|\n")[1].split("\n\n")[0].splitlines()
    ):
        when, _, names = (cell.strip() for cell in row.split("|")[1:-1])
        acts = when or acts
        said |= dict.fromkeys(re.findall(r"`(\w+)`", names), acts)
    assert said == {
        name: curriculum_card(kind).acts.rstrip(".") for name, kind in CURRICULA.items()
    }
    assert f"There are {len(CURRICULA)}," in readme
    assert len(readme.splitlines()) < 120


def test_every_command_is_on_the_page_of_commands(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.findall(r"^    (\w+)  ", capsys.readouterr().out, re.M)
    page = (ROOT / "docs/commands.md").read_text("utf-8")
    assert (
        commands
        and {f"| `metis {name}" for name in commands if f"| `metis {name}" not in page} == set()
    )


@pytest.mark.parametrize(("name", "page"), [("own_task", "tasks"), ("own_reward", "own-reward")])
def test_an_example_is_what_its_page_shows(name, page):
    example = (ROOT / f"examples/{name}.py").read_text()
    assert len(example.splitlines()) < 60
    page = (ROOT / f"docs/{page}.md").read_text("utf-8")
    shown = [part.split("```")[0] for part in page.split("```python\n")[1:]]
    assert any(part in example for part in shown)
    command = example.split('"""')[1].strip().splitlines()[-1]
    assert command.startswith("metis train ") and command in page


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


def test_the_example_of_a_judge_runs_and_finds_what_varies():
    example = ROOT / "examples/own_judge.py"
    walk = (ROOT / "docs/developers/adding-a-judge.md").read_text("utf-8")
    assert walk.split("```python\n")[1].split("```")[0] in example.read_text()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    printed = subprocess.check_output([sys.executable, example], text=True, env=environment)
    assert float(re.search(r"varied ([+-][0-9.]+) more", printed)[1]) > 0


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.ipynb")), ids=lambda p: p.name)
def test_a_notebook_is_committed_without_what_it_printed(path):
    cells = json.loads(path.read_text("utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code and path.stat().st_size < 100_000
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code)


def test_the_loop_of_one_s_own_runs_and_finds_what_varies():
    example = ROOT / "examples/own_loop.py"
    assert len(example.read_text().splitlines()) < 60
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    printed = subprocess.check_output([sys.executable, example], text=True, env=environment)
    uniform, mopps = (int(re.search(r"(\d+)% of", line)[1]) for line in printed.splitlines())
    assert mopps > 1.5 * uniform


def test_the_page_about_other_trainers_shows_what_runs():
    page = (ROOT / "docs/other-trainers.md").read_text("utf-8")
    loop, ask, url = (part.split("```")[0] for part in page.split("```python\n")[1:])
    trained = []
    names = {
        "metis": metis,
        "rows": [{"prompt": f"question {i}"} for i in range(300)],
        "roll_out": lambda row, n: [float(i % 3 == 0) for i in range(n)],
        "train_on": lambda pick, rewards: trained.append(pick),
        "hidden_states": lambda texts, depths: [[float(len(text)), 1.0] for text in texts],
    }
    exec(loop.replace("500", "3"), names)
    assert len(trained) == 3 * 32
    exec(ask, names)
    assert len(names["selector"].propose()) == 32
    exec(url, names)
    assert names["selector"].ask.url == "http://localhost:8000"


STANDS_FOR = {
    "scontrol": "printf 'node1\\nnode2\\n'",
    "ray": 'echo "ray $@" >> $NOTES',
    "metis": 'echo "metis $@" >> $NOTES',
    "python": "true",
    "srun": 'for node in 0 1; do SLURM_NODEID=$node "$@"; done',
}
"""Slurm, Ray and the commands of a cluster of two nodes, in the shell."""


def test_the_slurm_script_starts_ray_on_every_node_and_then_trains(tmp_path):
    page = (ROOT / "docs/cluster.md").read_text("utf-8")
    script = page.split("```bash\n")[1].split("```")[0]
    (tmp_path / "verl/bin").mkdir(parents=True)
    (tmp_path / "verl/bin/activate").write_text("")
    for name, body in STANDS_FOR.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    environment = {
        **{"HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        **{"NOTES": str(tmp_path / "notes"), "SLURM_JOB_NODELIST": "node[1-2]"},
        "SLURM_NNODES": "2",
    }
    subprocess.run(["bash", "-c", f"{script}\nwait"], check=True, env=environment, timeout=30)
    done = (tmp_path / "notes").read_text().splitlines()
    assert "ray start --head --port=6379 --num-gpus=8 --block" in done
    assert "ray start --address=node1:6379 --num-gpus=8 --block" in done
    [trained] = [line.split() for line in done if line.startswith("metis")]
    assert {"engine=verl", "engine.nodes=2", "engine.gpus=8"} <= set(trained)
    assert trained[1] == "train" and (ROOT / trained[2]).is_file()
