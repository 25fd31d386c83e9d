"""The public API is as it is written down: a change of it is seen, and is made on purpose."""

from pathlib import Path

import public_api

SNAPSHOT = Path(public_api.__file__).with_suffix(".txt")


def test_the_public_api_is_the_one_written_down():
    written, present = SNAPSHOT.read_text("utf-8").splitlines(), list(public_api.lines())
    gone, new = set(written) - set(present), set(present) - set(written)
    assert present == written, f"gone: {sorted(gone)}; new: {sorted(new)} (tests/public_api.py)"
