# The verbs of this repository. `make demo` and `make test` do all their set-up themselves.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PROJECTS := packages/core packages/train packages/eval slurm experiments
# Nothing here needs a model or data hub; with these set, a mistake fails at once instead of waiting for the network.
export HF_HUB_OFFLINE := 1
export HF_DATASETS_OFFLINE := 1
export TRANSFORMERS_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false

.PHONY: help setup demo test lint bench clean
help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /  make \1\t/' | expand -t 16

setup: $(STAMP)  ## make .venv and install everything in it (again when a version changed)

$(STAMP): constraints.txt requirements-dev.txt pyproject.toml $(PROJECTS:%=%/pyproject.toml)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; name it with: make PYTHON=python3.11 ...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (2.4 GB without a GPU build of torch; a few minutes)"
	@$(BIN)/pip install --disable-pip-version-check --quiet --constraint constraints.txt \
		$(PROJECTS:%=--editable %) --requirement requirements-dev.txt
	@touch $@

demo: setup  ## run the quickstart grid and print its table (minutes the first time, seconds after)
	@$(BIN)/lmk run quickstart

test: setup  ## run every test
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PYTEST_ARGS)

lint: setup  ## ruff and the type checker
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/ty check

bench: setup  ## run every benchmark beside its peer, and write benchmarks/README.md (BENCH_ARGS=--again)
	@$(BIN)/python benchmarks/run.py $(BENCH_ARGS)

clean:  ## remove the environment and caches; runs/ stays
	@rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis

.PHONY: slurm-up slurm-down
slurm-up:  ## start a real SLURM on this machine, to try the fan-out (Debian, root); see slurm/testbed/README.md
	@slurm/testbed/up.sh

slurm-down:  ## stop it, and remove what it wrote
	@slurm/testbed/down.sh
