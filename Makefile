# Two commands to know: `make quickstart` and `make test`. Both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin
# What the tests were run with; the package itself takes any recent torch.
TORCH ?= 2.13.0

.PHONY: quickstart test check docs clean

quickstart: .venv/ready
	$(BIN)/metis train --out runs/quickstart
	$(BIN)/metis report runs/quickstart

test: .venv/ready
	$(BIN)/pytest

check: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: .venv/ready
	$(BIN)/python docs/generate.py

.venv/ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "METIS needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet 'torch==$(TORCH)'
	$(BIN)/pip install --quiet --editable '.[local,math,gym,report,dev]'
	@touch $@

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
