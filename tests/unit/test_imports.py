"""The package as a whole: quick to import, in short functions."""

import ast
import subprocess
import sys
from pathlib import Path

import metis

SOURCE = Path(metis.__file__).parent


def test_importing_the_package_loads_nothing_else_and_takes_under_100_ms():
    program = (
        "import sys, time; start = time.process_time(); import metis; "
        "print(time.process_time() - start); "
        "print(*(m for m in ('numpy', 'torch', 'pydantic', 'rich') if m in sys.modules))"
    )

    def timed() -> float:
        run = [sys.executable, "-c", program]
        seconds, loaded = subprocess.check_output(run, text=True).split("\n")[:2]
        assert loaded == ""
        return float(seconds)

    assert min(timed() for _ in range(3)) < 0.1


def test_the_selector_is_imported_in_under_100_ms():
    program = (
        "import sys, time; start = time.process_time(); import metis.selector; "
        "print(time.process_time() - start); "
        "print(*(m for m in ('numpy', 'torch', 'pydantic') if m in sys.modules))"
    )
    run = [sys.executable, "-c", program]
    outputs = [subprocess.check_output(run, text=True).split("\n") for _ in range(3)]
    assert min(float(seconds) for seconds, *_ in outputs) < 0.1
    assert {loaded for _, loaded, *_ in outputs} == {""}


def test_a_selector_needs_no_torch_and_no_engine():
    program = (
        "import sys, metis; selector = metis.Selector(['a', 'b', 'c'], 'mopps', batch=2, group=2);"
        "picks = selector.propose(); [selector.observe(pick.id, [0, 1]) for pick in picks];"
        "selector.load_state_dict(selector.state_dict());"
        "print(*(m for m in sys.modules if m.partition('.')[0] in ('torch', 'transformers', 'rich')"
        " or m.startswith(('metis.engines', 'metis.loop'))))"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "\n"


def test_a_loop_of_one_s_own_needs_no_framework():
    program = (
        "import sys; from metis import Batch, Pool, Progress, drive; import metis.curricula; "
        "print(*(m for m in ('torch', 'pydantic', 'rich') if m in sys.modules))"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "\n"


def test_a_run_is_opened_and_read_without_a_framework(tmp_path):
    program = (
        "import sys, metis; run = metis.load(sys.argv[1]); print(len(run.rollouts), run); "
        "print(*(m for m in ('torch', 'transformers', 'pandas') if m in sys.modules))"
    )
    given = {"engine": "simulated", "curriculum": "uniform", "batch": 4, "group": 4}
    metis.train(out=tmp_path / "run", steps=2, show=False, **given)
    run = [sys.executable, "-c", program, str(tmp_path / "run")]
    said, loaded = subprocess.check_output(run, text=True).splitlines()
    assert said.startswith("32 <run ") and loaded == ""


def test_functions_stay_short():
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno - node.lineno < 60, f"{node.name} in {path}"


def test_the_version_is_the_distribution_s():
    from importlib.metadata import version

    assert metis.__version__ == version("metis-rft")
