"""`metis doctor`: what is there, what is missing, what does not work, and the exit code."""

import json
import shutil
from importlib import metadata
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement

from metis import cli
from metis.doctor import command, machine, packages
from metis.doctor.finding import Finding, ok
from metis.tasks.code import bubblewrap, sandbox


def test_every_optional_package_has_a_declared_range():
    assert set(packages.USES) <= set(packages.requirements())


def test_ranges_come_from_the_checkout_where_metis_is_not_installed(monkeypatch):
    installed = packages.requirements()

    def absent(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", absent)
    declared = packages.requirements()
    assert all(declared[name].specifier == installed[name].specifier for name in packages.USES)


@pytest.mark.parametrize(
    ("version", "state"), [("1.16.2", "ok"), ("1.15.0", "broken"), ("1.17.0", "broken")]
)
def test_a_package_outside_its_range_is_broken_and_the_range_is_named(monkeypatch, version, state):
    monkeypatch.setattr(metadata, "version", lambda name: version)
    found = packages.package("trl", Requirement("trl>=1.16,<1.17"))
    assert found.state == state
    assert version in found.found
    assert state == "ok" or ("<1.17" in found.found and "[trl]" in found.remedy)


def test_a_package_that_is_missing_is_absent_with_its_command(monkeypatch):
    def absent(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    found = packages.package("verl", Requirement("verl==0.9.1"))
    assert found.state == "absent" and "[verl]" in found.remedy


def test_a_machine_without_bubblewrap_and_one_whose_sandbox_does_not_hold(monkeypatch):
    def fails():
        raise bubblewrap.SandboxMissing("no user namespaces here")

    monkeypatch.setattr(sandbox, "ready", fails)
    monkeypatch.setattr(bubblewrap, "executable", lambda: "/usr/bin/bwrap")
    assert machine.programs().state == "broken"
    assert "namespaces" in machine.programs().found
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(bubblewrap, "executable", fails)
    found = machine.programs()
    assert found.state == "absent" and "bubblewrap" in found.remedy


@pytest.mark.parametrize(("cuda", "states"), [(None, "without CUDA"), ("13.0", "does not start")])
def test_a_gpu_that_torch_does_not_see_is_broken(monkeypatch, cuda, states):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/" + name)
    found = machine.gpu()
    assert found.state == "broken" and states in found.found
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert machine.gpu().state == "absent"


def test_a_disk_that_is_nearly_full(monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=2e9))
    assert machine.disk().state == "broken"
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=2e11))
    assert machine.disk().state == "ok"


@pytest.mark.parametrize(("offline", "named"), [(True, "HF_HUB_OFFLINE"), (False, "127.0.0.1")])
def test_the_hub_switched_off_and_out_of_reach(monkeypatch, offline, named):
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    found = machine.hub()
    assert found.state == "absent" and named in found.found


BROKEN = Finding("disk", "broken", "1 GB free", "runs", "free some")
ABSENT = Finding("verl", "absent", "not installed", "clusters", "pip install verl")


@pytest.mark.parametrize(
    ("findings", "code"), [([ok("Python", "3.12")], 0), ([ABSENT], 0), ([ABSENT, BROKEN], 1)]
)
def test_only_what_does_not_work_ends_with_1(monkeypatch, capsys, findings, code):
    monkeypatch.setattr(command, "findings", lambda: iter(findings))
    assert cli.main(["doctor"]) == code
    shown = capsys.readouterr().out
    assert all(finding.found in shown and finding.remedy in shown for finding in findings)
    assert cli.main(["doctor", "--json"]) == code
    read = json.loads(capsys.readouterr().out)
    assert [each["state"] for each in read] == [each.state for each in findings]
