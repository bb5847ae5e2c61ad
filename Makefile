# Everything a contributor does, one word each. `make` alone lists them.

PYTHON  ?=
WORKERS ?= 2
ARGS    ?=

bin := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-serial test-torch lint format check clean distclean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile
	@echo
	@echo "  PYTHON=python3.12  the Python to build .venv with (3.11 or newer; found if not given)"
	@echo "  WORKERS=$(WORKERS)          processes for make test;  ARGS='-k deadlock': more for pytest"

setup: ## create or refresh .venv, if it is missing or stale
	@PYTHON="$(PYTHON)" ci/setup

demo: setup ## check a right schedule and two faulty ones, show the reports
	@ci/demo

test: setup ## run the tests on WORKERS processes
	@$(bin)/python -m pytest -n $(WORKERS) $(ARGS)

test-serial: setup ## run the tests in one process
	@$(bin)/python -m pytest $(ARGS)

lint: setup ## lint, format check, strict types
	$(bin)/ruff check
	$(bin)/ruff format --check
	$(bin)/mypy

format: setup ## mend what lint can mend by itself
	$(bin)/ruff check --fix
	$(bin)/ruff format

test-torch: ## run the tests on another torch: make test-torch TORCH=2.8.0
	@WORKERS=$(WORKERS) ci/with-torch $(TORCH) $(ARGS)

check: ## what CI runs: lint, then test
	@ci/check

clean: ## remove caches and build outputs
	rm -rf build dist .hypothesis .pytest_cache .mypy_cache .ruff_cache
	find . -name .venv -prune -o -name .git -prune -o -name __pycache__ -exec rm -rf {} +

distclean: clean ## remove .venv as well
	rm -rf .venv *.egg-info
