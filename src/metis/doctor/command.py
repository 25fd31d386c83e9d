"""The command `metis doctor`."""

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict

from metis.commands import Commands, add_command, plain_console
from metis.doctor.finding import Finding

HELP = """\
Looks at this machine: what METIS can use here, what it cannot and the command that mends it.
Nothing is changed. Ends with 1 where a part is there and does not work; a part that is not there
only matters to those who want it.

  metis doctor            a line for each part
  metis doctor --json     the same as JSON
"""

MARKS = {"ok": "ok", "absent": "–", "broken": "!"}


def add(commands: Commands) -> None:
    summary = "what works on this machine, and the command that mends what does not"
    doctor = add_command(commands, "doctor", _run, summary, HELP)
    doctor.add_argument("--json", action="store_true", help="the findings as JSON")


def findings() -> Iterator[Finding]:
    """Check every part in turn, from the interpreter outwards."""
    from metis.doctor import machine, packages

    yield packages.python()
    yield machine.processors()
    yield from packages.findings()
    yield machine.gpu()
    yield machine.programs()
    yield machine.browser()
    yield machine.disk()
    yield machine.hub()


def _run(chosen: argparse.Namespace) -> int:
    console, seen = plain_console(), []
    for finding in findings():
        seen.append(finding)
        if not chosen.json:
            console.print(*lines(finding), sep="\n")
    if chosen.json:
        print(json.dumps([asdict(finding) for finding in seen], indent=2))
    return int(any(finding.state == "broken" for finding in seen))


def lines(finding: Finding) -> list[str]:
    """A finding as text: the state, then what is missing and the command that mends it."""
    first = f"{MARKS[finding.state]:<3} {finding.name:<16} {finding.found}"
    if finding.state == "ok":
        return [first]
    needed = f"{'':<20} needed for {finding.use}"
    return [first, needed, *([f"{'':<20} {finding.remedy}"] if finding.remedy else [])]
