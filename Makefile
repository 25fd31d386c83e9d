# Two commands to know: `make quickstart` and `make test`. Both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin
# What the tests were run with; the package itself takes any recent torch.
TORCH ?= 2.13.0
VERSIONS := tests/constraints.txt
VERIFIERS := $(CURDIR)/.venv-verifiers/bin/python
# Containers often set it; every process that a test starts would then compile the package anew.
unexport PYTHONDONTWRITEBYTECODE
export PYTHON

# A run, its parts and its model folders, with other versions of torch and transformers.
RANGES := tests/unit/text tests/unit/report $(addprefix tests/integration/test_,local_run.py policy.py forward.py \
	decoding.py update.py model_folder.py export.py library.py readme.py)

.PHONY: quickstart test test-oldest test-newest test-verl test-nodes test-trl test-trainers test-inspect test-verifiers test-notebooks test-dist dist check docs site judge-set clean

quickstart: .venv/quickstart
	$(BIN)/metis train --out runs/quickstart
	$(BIN)/metis report runs/quickstart
	@echo 'For the metis command in this shell: source .venv/bin/activate'

test: .venv/ready
	@sh .ci/packages bubblewrap chromium g++
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses=auto --maxprocesses=8 --dist=worksteal

# torch 2.6 cannot recompute activations of compiled layers.
test-oldest: WITHOUT := --deselect tests/integration/test_update.py::test_compiled_layers_recompute_the_same
test-oldest test-newest: test-%: .venv-%/ready
	OMP_NUM_THREADS=1 .venv-$*/bin/pytest $(WITHOUT) $(RANGES)

test-verl: .venv-verl/ready .venv-verifiers/ready
	@sh .ci/packages bubblewrap
	METIS_VERIFIERS=$(VERIFIERS) .venv-verl/bin/pytest tests/on_verl --ignore=tests/on_verl/test_on_nodes.py

# Whole runs on several nodes of Ray, of which some are lost: about ten minutes.
test-nodes: .venv-verl/ready
	.venv-verl/bin/pytest tests/on_verl/test_on_nodes.py

test-trl: .venv-trl/ready
	.venv-trl/bin/pytest tests/on_trl

test-trainers: .venv-trainers/ready
	.venv-trainers/bin/pytest tests/on_trainers

test-inspect: .venv-inspect/ready
	@sh .ci/packages chromium
	.venv-inspect/bin/pytest tests/on_inspect

test-verifiers: .venv/ready .venv-verifiers/ready
	METIS_VERIFIERS=$(VERIFIERS) $(BIN)/pytest tests/on_verifiers

# examples/*.ipynb, from the first cell to the last, with the seconds that each took.
test-notebooks: .venv/ready
	METIS_NOTEBOOKS=1 $(BIN)/pytest --durations=0 --durations-min=1 tests/on_notebooks

# The wheel and the sdist, installed outside this tree with every supported Python that is there.
test-dist: .venv-dist/ready
	.venv-dist/bin/pytest tests/on_dist

# A release: wheel, sdist, and what an installation of the wheel consists of (CycloneDX).
dist: .venv-dist/ready
	rm -rf dist
	.venv-dist/bin/python -m build --no-isolation --outdir dist
	$(PYTHON) -m venv dist/installed
	dist/installed/bin/pip install --quiet dist/*.whl
	.venv-dist/bin/cyclonedx-py environment dist/installed/bin/python --output-format JSON --output-file dist/sbom.json
	rm -rf dist/installed

check: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: .venv/ready
	$(BIN)/python docs/api_page.py
	$(BIN)/python docs/curricula_page.py
	$(BIN)/python docs/drawings.py
	$(BIN)/python docs/metrics_page.py
	$(BIN)/python docs/settings_page.py
	$(BIN)/python evidence/publish.py
	@sh .ci/packages chromium
	$(BIN)/python docs/screenshots.py

# Also strict: a broken link, or a page that no list in mkdocs.yml has, is an error.
site: .venv-site/ready
	NO_MKDOCS_2_WARNING=1 .venv-site/bin/mkdocs build

# The outcomes that judges are developed on: one GPU with vLLM; goes on where it was stopped.
judge-set:
	for name in math dapo; do \
		metis survey recipes/judge-offline/$$name.toml --prompts 1000 --no-step $(SETTINGS) \
			--out surveys/judge-offline-$$name --keep evidence/judge-offline/$$name.jsonl.gz || exit 1; \
	done

.venv/quickstart: pyproject.toml $(VERSIONS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "METIS needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 1; }
	@sh .ci/packages python3-venv
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet 'torch==$(TORCH)'
	$(BIN)/pip install --quiet --constraint $(VERSIONS) --editable '.[local]'
	@touch $@

# pip compiles pycosat, which reasoning-gym needs.
.venv/ready: .venv/quickstart
	@sh .ci/packages g++ python3-dev
	$(BIN)/pip install --quiet --constraint $(VERSIONS) --editable '.[local,math,gym,dev]'
	$(BIN)/python -c 'from metis.engines import model_files; model_files.model("smollm2-135m")'
	$(BIN)/python -c 'from metis.tasks.bfcl import package; package.folder()'
	$(BIN)/python -c 'from metis.tasks.code import checkers; checkers.testlib()'
	@touch $@

# The ends of the ranges in pyproject.toml.
.venv-oldest/ready .venv-newest/ready: .venv-%/ready: tests/%.txt
	@sh .ci/packages python3-venv
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/pip install --quiet --requirement $<
	.venv-$*/bin/pip install --quiet --no-deps --editable .
	@touch $@

# verl's pins are not those of the rest, so it has an environment of its own.
.venv-verl/ready: tests/on_verl/requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' \
		|| { echo "verl needs Python 3.11 or 3.12: make PYTHON=/path/to/python3.12"; exit 1; }
	@sh .ci/packages python3-venv
	$(PYTHON) -m venv .venv-verl
	.venv-verl/bin/pip install --quiet --upgrade pip
	.venv-verl/bin/pip install --quiet 'torch==$(TORCH)'
	.venv-verl/bin/pip install --quiet --requirement $<
	.venv-verl/bin/pip install --quiet --no-deps 'verl==0.9.1' --editable .
	@touch $@

# TRL needs what verl cannot have, and the rest does not need TRL.
.venv-trl/ready: tests/on_trl/requirements.txt
	@sh .ci/packages python3-venv
	$(PYTHON) -m venv .venv-trl
	.venv-trl/bin/pip install --quiet 'torch==$(TORCH)'
	.venv-trl/bin/pip install --quiet --requirement $<
	.venv-trl/bin/pip install --quiet --no-deps --editable .
	@touch $@

# ART and tinker-cookbook bring trainers of their own and clients of services; their rollouts need
# a fifth of that. tinker-cookbook imports torch.
.venv-trainers/ready: tests/on_trainers/requirements.txt
	@sh .ci/packages python3-venv
	$(PYTHON) -m venv .venv-trainers
	.venv-trainers/bin/pip install --quiet 'torch==$(TORCH)'
	.venv-trainers/bin/pip install --quiet --no-deps --no-compile --requirement $<
	.venv-trainers/bin/pip install --quiet --no-deps --editable .
	@touch $@

# inspect_ai brings eighty packages, and only its viewer is wanted, for what we write for it.
.venv-inspect/ready: tests/on_inspect/requirements.txt
	@sh .ci/packages python3-venv
	$(PYTHON) -m venv .venv-inspect
	.venv-inspect/bin/pip install --quiet --requirement $<
	.venv-inspect/bin/pip install --quiet --no-deps --editable .
	@touch $@

# verifiers pins mcp to another version than vLLM needs, so tasksets are loaded and scored in an
# environment of their own.
.venv-verifiers/ready: tests/on_verifiers/requirements.txt
	@sh .ci/packages python3-venv
	$(PYTHON) -m venv .venv-verifiers
	.venv-verifiers/bin/pip install --quiet --no-deps --no-compile --requirement $<
	.venv-verifiers/bin/pip install --quiet --no-deps --editable .
	.venv-verifiers/bin/pip install --quiet --no-deps --editable tests/on_verifiers/tasksets
	@touch $@

.venv-dist/ready: tests/on_dist/requirements.txt
	@sh .ci/packages python3-venv
	$(PYTHON) -m venv .venv-dist
	.venv-dist/bin/pip install --quiet --requirement $<
	.venv-dist/bin/pip install --quiet --no-deps --editable .
	@touch $@

# mkdocs reads the pages alone, so it needs nothing of the rest.
.venv-site/ready: docs/requirements.txt
	@sh .ci/packages python3-venv
	$(PYTHON) -m venv .venv-site
	.venv-site/bin/pip install --quiet --no-deps --requirement $<
	@touch $@

clean:
	rm -rf .venv .venv-oldest .venv-newest .venv-verl .venv-trl .venv-trainers .venv-inspect .venv-verifiers .venv-dist .venv-site site dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
