"""The tables in `evidence/` are those of the runs beside them."""

import shutil
from pathlib import Path

import pytest

from metis.cli import main

TABLES = sorted((Path(__file__).parents[3] / "evidence").rglob("comparison.md"))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.parent.name)
def test_a_table_is_what_its_runs_say(table, tmp_path):
    folder = tmp_path / table.parent.name
    shutil.copytree(table.parent, folder)
    (folder / table.name).unlink()
    assert main(["compare", "--out", str(folder)]) == ("## Missing" in table.read_text())
    assert (folder / table.name).read_text() == table.read_text(), (
        f"stale: metis compare --out {table.parent}"
    )
