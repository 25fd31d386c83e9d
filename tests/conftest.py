"""For all tests: no time limit on the examples of a property, which a busy machine would miss;
whatever a run writes down is explained in docs/metrics.md; nobody waits for the disk; and CI takes
few reasons to skip. `make test` has a process more than there are cores."""

import json
import os

import pytest
from hypothesis import settings

from metis.run.folder import LOGS, Folder
from metis.run.metrics import reason, unexplained
from metis.tasks.code.pool import cores
from skips import pytest_sessionfinish, pytest_terminal_summary  # noqa: F401

settings.register_profile("metis", deadline=None)
settings.load_profile("metis")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """One works while another waits for the end of a process, or for a limit of time."""
    return cores() + 1


@pytest.fixture(autouse=True, scope="session")
def every_run_is_explained():
    """No run of the tests writes a metric, a field or a reason that the table does not have.

    A curriculum of one's own may have metrics and reasons of its own.
    """
    append = Folder.append

    def checked(folder, log, rows):
        rows = list(rows)
        if log in LOGS:
            names = {name for row in rows for name in row}
            unknown = unexplained(log, names)
            unknown += [said for row in rows if not reason(said := row.get("reason", "top"))]
            assert not unknown or _own(folder.path), f"{log}.jsonl: {unknown} in no table"
        append(folder, log, rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Folder, "append", checked)
        yield


@pytest.fixture(autouse=True, scope="session")
def nothing_waits_for_the_disk():
    """fsync matters where the power fails; what is killed has written all the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


def _own(run):
    curriculum = json.loads((run / "config.json").read_text("utf-8")).get("curriculum", {})
    return ":" in str(curriculum.get("name", ""))
