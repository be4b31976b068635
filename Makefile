# The project's commands; `make help` lists them.
#
# Each makes its own virtual environment in .venv when there is none, and installs what it needs there in the versions
# of constraints.txt. A second call installs nothing, until pyproject.toml or constraints.txt change.

PYTHON ?= python3
VENV ?= .venv
ENV_ID = SC2MoveToBeacon-v0
NPROC = 2
ARGS =
PYTEST_ARGS =
TEST_PROCESSES = 2

BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable
NEEDED := pyproject.toml constraints.txt

# one thread a rank, and no warning from torchrun that nobody chose
OMP_NUM_THREADS ?= 1
export OMP_NUM_THREADS
# the ranks of a job over several machines find each other again after torchrun --max-restarts has started them anew
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE = 1

.DEFAULT_GOAL := help
.PHONY: help train test test-slow test-all soak lint format types docs clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

train: $(STAMPS)/train ## train an agent (ENV_ID=SC2MoveToBeacon-v0 NPROC=2 ARGS="--seed 2")
	$(BIN)/torchrun --standalone --nproc_per_node=$(NPROC) algorithms/a2c_sc2_multigpu.py --env-id $(ENV_ID) $(ARGS)

test: $(STAMPS)/dev ## run the quick tests, and name those that are skipped (PYTEST_ARGS="-k seeds")
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile -m "not slow and not soak" $(PYTEST_ARGS)

test-slow: $(STAMPS)/dev ## run the tests that take minutes
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile -m "slow and not soak" $(PYTEST_ARGS)

test-all: ## run the quick tests, then the slow ones
	$(MAKE) test
	$(MAKE) test-slow

soak: $(STAMPS)/dev ## run the longest tests; their log is kept in logs/
	@mkdir -p logs
	@{ $(BIN)/python -m pytest -m soak $(PYTEST_ARGS) 2>&1; echo $$? > logs/soak.status; } | tee logs/soak.log
	@exit $$(cat logs/soak.status)

lint: $(STAMPS)/dev ## check style and format (ruff)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMPS)/dev ## repair style and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(STAMPS)/dev ## check the types of the package (mypy)
	$(BIN)/mypy

docs: $(STAMPS)/docs ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean: ## remove all that these commands made, except runs/ and logs/
	rm -rf $(VENV) site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; (3, 11) <= v <= (3, 14) or sys.exit("sc2_envs needs Python 3.11 to 3.14, but $(PYTHON) is %d.%d: name another one, for example make PYTHON=python3.12 train" % v)'
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { echo "making $(VENV) with $$($(PYTHON) --version)"; $(PYTHON) -m venv $(VENV); }
	@mkdir -p $(STAMPS)
	@touch $@

$(STAMPS)/train: $(NEEDED) | $(STAMPS)/venv
	@echo "installing into $(VENV) what training needs (minutes, the first time)"
	@$(INSTALL) ".[train]"
	@touch $@

$(STAMPS)/dev: $(NEEDED) | $(STAMPS)/venv
	@echo "installing into $(VENV) what the tests need (minutes, the first time)"
	@$(INSTALL) ".[train,sb3,pysc2-light,play,benchmark,dev]"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-deps \
		"pysc2; python_version < '3.14'"
	@touch $@

$(STAMPS)/docs: $(NEEDED) | $(STAMPS)/venv
	@echo "installing into $(VENV) what the documentation needs"
	@$(INSTALL) ".[docs]"
	@touch $@
