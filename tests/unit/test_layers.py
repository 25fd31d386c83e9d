"""The layers of the package: imports go down this table, never up, and never in a circle."""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import metis

SOURCE = Path(metis.__file__).parent

LAYERS = (
    "cli",
    "library",
    "trl",
    "rankings",
    "selector",
    "choosing",
    "view",
    "surveys",
    "comparisons",
    "export",
    "doctor",
    "report",
    "diagnosis",
    "evals",
    "prepare",
    "start",
    "loop",
    "config",
    "engines",
    "engines.verl.trainer",
    "engines.verl.episodes",
    "engines.verl.reward",
    "engines.verl.reward_manager",
    "engines.verl.heldout",
    "engines.verl.nodes",
    "engines.verl.engine",
    "engines.verl.workers",
    "engines.verl.servers",
    "engines.verl.prompts",
    "engines.verl.launch",
    "engines.verl.checkpoints",
    "engines.verl.config",
    "engines.verl.estimate",
    "engines.verl.settings",
    "engines.verl",
    "engines.local.engine",
    "engines.local.device_errors",
    "engines.local.rollouts",
    "engines.local.update",
    "engines.local.generate",
    "engines.local.model",
    "engines.local.attention",
    "engines.local.starting",
    "engines.local.estimate",
    "engines.local.settings",
    "engines.local",
    "engines.simulated",
    "engines.training_settings",
    "engines.learners",
    "engines.objective",
    "engines.rewards",
    "engines.workers",
    "engines.tokens",
    "engines.model_files",
    "engines.loading",
    "engines.hidden_states",
    "settings",
    "tasks",
    "data",
    "run",
    "curricula",
    "core",
    "commands",
    "text.terminal",
    "text",
    "files",
    "signal",
    "errors",
)
"""From what people type down to the contract; a module belongs to the longest name that fits it."""

FRAMEWORKS = ("torch", "transformers", "vllm", "verl", "ray", "trl", "peft")
BARE = ("core", "curricula", "signal", "text", "errors")
"""Layers that import the standard library and numpy only."""

MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(SOURCE.rglob("*.py"))
    if path != SOURCE / "__init__.py"
}


def layer(module: str) -> str:
    fitting = [name for name in LAYERS if module == name or module.startswith(f"{name}.")]
    assert fitting, f"{module} is in no layer: give it a line in LAYERS"
    return max(fitting, key=len)


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Absolute names of all imports of a file, those inside of functions too."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {path}"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full.removeprefix("metis.") in MODULES else str(node.module)


def own(path: Path) -> set[str]:
    """Modules of the package that a file imports."""
    names = {name.removeprefix("metis.") for name in imports(path) if name.startswith("metis.")}
    return {name if name in MODULES else name.rpartition(".")[0] for name in names}


def test_every_line_of_the_table_is_a_part_of_the_package():
    assert {name for name in LAYERS if name not in MODULES} == set()
    assert len(set(LAYERS)) == len(LAYERS)


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_down(module):
    here = layer(module)
    for name in own(MODULES[module]):
        there = layer(name)
        assert LAYERS.index(here) <= LAYERS.index(there), f"{module} ({here}) imports {name}"


def circles(graph: dict[str, set[str]]) -> Iterator[frozenset[str]]:
    """The parts of a graph whose nodes all reach each other."""

    @cache
    def reached(start: str) -> frozenset[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            more = graph.get(waiting.pop(), set()) - seen
            seen |= more
            waiting.extend(more)
        return frozenset(seen)

    for node in graph:
        if node in reached(node):
            yield frozenset(other for other in reached(node) if node in reached(other))


def test_no_circle_of_files():
    assert not set(circles({module: own(path) - {module} for module, path in MODULES.items()}))


def rooms() -> dict[str, set[str]]:
    """What imports what among the modules and folders that are side by side in a folder."""
    graph: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        for name in own(path) - {module}:
            here, there = module.split("."), name.split(".")
            same = next((i for i, (a, b) in enumerate(zip(here, there)) if a != b), None)  # noqa: B905
            if same is not None:
                graph.setdefault(".".join(here[: same + 1]), set()).add(".".join(there[: same + 1]))
    return graph


def test_no_circle_of_rooms():
    """A folder's own `__init__` may name what is in it."""
    assert not set(circles(rooms()))


@pytest.mark.parametrize("module", MODULES)
def test_frameworks_stay_in_the_engines(module):
    outside = {name.partition(".")[0] for name in imports(MODULES[module])}
    if layer(module) in BARE:
        assert outside <= {"metis", "numpy", *sys.stdlib_module_names}
    elif not module.startswith(("engines", "evals.answers", "export", "doctor", "trl")):
        assert not outside & set(FRAMEWORKS)


def test_no_engine_names_a_curriculum_or_its_judge():
    for module, path in MODULES.items():
        if module.startswith("engines") and module != "engines.simulated":
            named = {name for name in own(path) if name.startswith("curricula")}
            assert named <= {"curricula.registry"}, module
