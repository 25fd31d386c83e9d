"""Packages of programs: found where the sandbox finds them."""

from itertools import takewhile

from metis.tasks.code.libraries import missing
from metis.tasks.code.pool import LIBRARIES, SandboxPool
from metis.tasks.code.tests import Limits, Script
from sandboxed import needs_bubblewrap

pytestmark = needs_bubblewrap


def test_packages_are_looked_for_in_the_sandbox():
    assert missing([]) == set()
    assert missing(["json", "no_such_package"]) == {"no_such_package"}
    assert missing(["pytest"]) == {"pytest"}, "those of this process do not count"


def test_folders_of_packages_may_be_named(tmp_path, monkeypatch):
    (tmp_path / "packages").mkdir()
    private = takewhile(lambda it: it.name.startswith(("pytest-", "popen-")), tmp_path.parents)
    for folder in (tmp_path, *private, tmp_path / "packages"):
        folder.chmod(0o755)
    (tmp_path / "packages" / "given.py").write_text("VALUE = 7\n")
    monkeypatch.setenv(LIBRARIES, str(tmp_path / "packages"))
    pool = SandboxPool(1)
    try:
        found = pool.run("", [Script("import given; assert given.VALUE == 7")], Limits())
    finally:
        pool.close()
    assert found.outcome.fraction == 1, found.outcome
