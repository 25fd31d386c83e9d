"""The command that installs an extra works: from the checkout, from wherever it is typed."""

from pathlib import Path

from metis import errors
from metis.errors import pip_install

CHECKOUT = Path(errors.__file__).parents[2]


def test_from_the_checkout_it_is_short(monkeypatch):
    monkeypatch.chdir(CHECKOUT)
    assert pip_install("math") == "pip install -e '.[math]'"


def test_from_elsewhere_it_names_the_checkout(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert pip_install("math") == f"pip install -e '{CHECKOUT}[math]'"


def test_an_installed_package_has_no_checkout(monkeypatch, tmp_path):
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "lib" / "metis" / "errors.py"))
    assert pip_install("math") == "pip install -e '.[math]' in a checkout of METIS"


def test_no_hint_names_a_package_that_no_index_has():
    """Only the doctor has its name, to look up what the installed package requires."""
    lines = [
        (path.name, line)
        for path in CHECKOUT.glob("src/**/*.py")
        for line in path.read_text("utf-8").splitlines()
        if "metis-rft" in line
    ]
    assert lines == [("packages.py", 'DISTRIBUTION = "metis-rft"')]
