# Every target makes .venv by itself. PYTHON chooses the interpreter, ARGS passes flags on
# (make quickstart ARGS="--help"), TESTS runs a part of the suite (make test TESTS=tests/cli).
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
REQUIREMENTS := pyproject.toml constraints.txt
# Coverage is judged on the whole suite only.
COVERAGE := $(if $(TESTS),,--cov --cov-report=term --cov-fail-under=90)
# A file stays in one process, for what its tests share is compiled once.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile $(COVERAGE) $(or $(TESTS),tests)
CHECKS := check-format check-lint check-types check-imports check-structure

.PHONY: help quickstart setup test test-all check $(CHECKS) format bench pictures
.DEFAULT_GOAL := help

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

quickstart: .venv/.run ## the whole journey in minutes, on a CPU with no network
	$(BIN)/jax-lm quickstart $(ARGS)

setup: .venv/.dev ## install what quickstart, the checks and the tests need

test: .venv/.dev ## the fast tests, with coverage
	$(PYTEST) -m "not slow" $(ARGS)

test-all: .venv/.dev ## every test
	$(PYTEST) $(ARGS)

check: $(CHECKS) ## format, lint, types, imports, sizes

check-format: .venv/.dev
	$(BIN)/ruff format --check .

check-lint: .venv/.dev
	$(BIN)/ruff check .

check-types: .venv/.dev
	$(BIN)/mypy

check-imports: .venv/.dev
	$(BIN)/lint-imports

check-structure: .venv/.dev
	$(BIN)/python -m pytest -q tests/test_structure.py

format: .venv/.dev ## rewrite the code as `make check` wants it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

pictures: .venv/.dev ## the README's pictures, drawn anew (needs chromium)
	$(BIN)/python docs/pictures/draw.py

bench: .venv/.dev ## every benchmark
	$(PIP) -e ".[bench]"
	set -e; for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python "$$script" $(ARGS); done

$(BIN)/python:
	$(PYTHON) -m venv .venv

.venv/.run: $(REQUIREMENTS) | $(BIN)/python
	$(PIP) -e '.[beam,fast]'
	@touch $@

.venv/.dev: $(REQUIREMENTS) | $(BIN)/python
	$(PIP) -e '.[text,serve,check,test]'
	@touch .venv/.run $@
