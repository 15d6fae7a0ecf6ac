# Two commands set up everything on a machine with Python 3.11+ and make:
#   make demo   trains with every method on two data sets and saves a plot
#   make test   linters, types, layers, tests
# `make docs` builds the documentation into docs/_build/html, `make test-slow` fuzzes.
# `make reproduce` runs the paper's experiments (BATCHSVM_DATA names the folder of the data),
# `make reproduce-quick` a small version that needs no data.
# `make bench` races against other solvers, on the same data; `make bench BENCH=--quick` tries it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

.PHONY: demo test test-slow lint docs bench reproduce reproduce-quick clean

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[all]'
	touch $@

demo: $(READY)
	$(BIN)/python examples/demo.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest -n auto

test-slow: $(READY)
	$(BIN)/python -m pytest -n auto -m slow

docs: $(READY)
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

bench: $(READY)
	$(BIN)/python -m benchmarks.run $(BENCH)

clean:
	rm -rf docs/_build docs/examples $(VENV) build dist demo-output .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

reproduce: $(READY)
	$(BIN)/python -m experiments.run

reproduce-quick: $(READY)
	$(BIN)/python -m experiments.run --quick
