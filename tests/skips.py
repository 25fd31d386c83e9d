"""What a machine may lack. In CI (CI=true) a test that is skipped for any other reason fails it.

Imported by conftest.py, so that the runs of verl and of TRL have it too.
"""

import os

import pytest

GPU = "needs a GPU"
DATA = "needs the real data: set METIS_DATA to their folder"


def pytest_sessionfinish(session):
    if _refused(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    if refused := _refused(config):
        terminalreporter.section("skipped for want of more than a GPU or the real data", red=True)
        for line in refused:
            terminalreporter.write_line(line)


def _refused(config):
    """The skipped tests that CI does not put up with; none in the processes of xdist."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or os.environ.get("CI") != "true":
        return []
    reasons = [(report.nodeid, _reason(report)) for report in reporter.stats.get("skipped", [])]
    return [f"{test}: {reason}" for test, reason in reasons if not reason.startswith((GPU, DATA))]


def _reason(report):
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")
