# The project's commands: `make help` lists them.
#
# Every command makes its own virtual environment in .venv when there is none, and installs what it needs there with
# the versions of constraints.txt. A second call installs nothing until pyproject.toml or constraints.txt change.

PYTHON ?= python3
VENV ?= .venv
ENV_ID ?= SC2MoveToBeacon-v0
NPROC ?= 2
ARGS ?=
PYTEST_ARGS ?=

BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt
# torchrun warns when this is unset; one thread a rank is what two ranks on two cores want
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help train test test-all soak lint types format docs clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

train: $(STAMPS)/train ## train an agent: ENV_ID=SC2MoveToBeacon-v0 NPROC=2 ARGS="--seed 2"
	$(BIN)/torchrun --standalone --nproc_per_node=$(NPROC) algorithms/a2c_sc2_multigpu.py --env-id $(ENV_ID) $(ARGS)

test: $(STAMPS)/dev ## the tests that take seconds; names what it skips
	$(BIN)/python -m pytest -m "not slow and not soak" $(PYTEST_ARGS)

test-all: $(STAMPS)/dev ## the slow tests too
	$(BIN)/python -m pytest -m "not soak" $(PYTEST_ARGS)

soak: $(STAMPS)/dev ## the longest tests, their log kept in logs/
	@mkdir -p logs
	set -o pipefail; $(BIN)/python -m pytest -m soak $(PYTEST_ARGS) 2>&1 | tee logs/soak.log

lint: $(STAMPS)/dev ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMPS)/dev ## let ruff repair what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(STAMPS)/dev ## mypy on the package
	$(BIN)/mypy

docs: $(STAMPS)/docs ## the documentation, into site/
	$(BIN)/mkdocs build --strict

clean: ## remove what commands made (not runs/)
	rm -rf $(VENV) site build dist logs .pytest_cache .mypy_cache .ruff_cache .hypothesis

# ---- environment -------------------------------------------------------------------------------------------------

SHELL := /bin/bash

$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if (3, 11) <= v < (3, 15) else "sc2_envs needs Python 3.11 to 3.14; \
	$(PYTHON) is %d.%d. Name another: make PYTHON=python3.12 ..." % v[:2])'
	@test -x $(BIN)/python || { echo "making $(VENV) with $$($(PYTHON) --version)"; $(PYTHON) -m venv $(VENV); }
	@mkdir -p $(STAMPS)
	@touch $@

$(STAMPS)/train: pyproject.toml constraints.txt | $(STAMPS)/venv
	@echo "installing what training needs into $(VENV)"
	@$(INSTALL) --editable ".[train]"
	@touch $@

$(STAMPS)/dev: pyproject.toml constraints.txt | $(STAMPS)/venv
	@echo "installing what the tests need into $(VENV)"
	@$(INSTALL) --editable ".[train,sb3,benchmark,dev]"
	@touch $@

$(STAMPS)/docs: pyproject.toml constraints.txt | $(STAMPS)/venv
	@echo "installing what the documentation needs into $(VENV)"
	@$(INSTALL) --editable ".[docs]"
	@touch $@
