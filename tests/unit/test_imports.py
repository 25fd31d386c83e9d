"""The import laws: the core needs no framework, and importing it is quick."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import metis

SOURCE = Path(metis.__file__).parent
CORE = [
    "core.py",
    "values.py",
    "signal.py",
    "pool.py",
    "predictors.py",
    "state.py",
    "diagnostics.py",
    "errors.py",
    "meter.py",
    "boxes.py",
]
CORE += [str(path.relative_to(SOURCE)) for path in sorted((SOURCE / "curricula").rglob("*.py"))]
ALLOWED = {"metis", "numpy", *sys.stdlib_module_names}


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {path}"
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("name", CORE)
def test_the_core_imports_numpy_and_the_standard_library_only(name):
    for module in imported(SOURCE / name):
        assert module.split(".")[0] in ALLOWED, f"{name} imports {module}"
        assert not module.startswith(("metis.engines", "metis.config")), f"{name} imports {module}"


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


def test_a_loop_of_one_s_own_needs_no_framework():
    program = (
        "import sys; from metis import Batch, Pool, Progress, drive; import metis.curricula; "
        "print(*(m for m in ('torch', 'pydantic', 'rich') if m in sys.modules))"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "\n"


def test_no_engine_names_a_curriculum():
    from metis.curricula import CURRICULA

    for path in (SOURCE / "engines").rglob("*.py"):
        for module in imported(path):
            last = module.rpartition(".")[2]
            assert not (module.startswith("metis.curricula.") and last in CURRICULA), path


def test_files_stay_short():
    for path in SOURCE.rglob("*.py"):
        limit = 200 if path.parent.name == "curricula" else 400
        assert len(path.read_text().splitlines()) <= limit, path


def test_the_version_is_the_distribution_s():
    from importlib.metadata import version

    assert metis.__version__ == version("metis-rft")
