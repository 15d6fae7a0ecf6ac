# Two commands set up everything on a machine with Python 3.11+ and make:
#   make demo   trains with every method on two data sets and saves a plot
#   make test   linters, types, layers, tests
# `make test-fast` runs the tests of the core and of the engines, in a minute and a half.
# `make test-oldest` runs the tests of the estimators with the oldest scikit-learn that is supported,
# in an environment of its own.
# `make test-gpu` runs the tests of the gpu engine on a CUDA device, with the Python named by PYTHON, which
# needs pytest and CuPy, and without an environment of its own; where there is no device, it says so.
# `make docs` builds the documentation into docs/_build/html, `make test-slow` fuzzes.
# `make reproduce` runs the paper's experiments (BATCHSVM_DATA names the folder of the data),
# `make reproduce-quick` a small version that needs no data, and `make reproduce REPRODUCE=--missing`
# only what the report in docs/reproduction lacks.
# `make bench` races against other solvers, on the same data; `make bench BENCH=--quick` tries it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
OLDEST := .venv-oldest

.PHONY: demo test test-fast test-oldest test-slow test-gpu lint docs bench reproduce reproduce-quick clean

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

# A file of tests stays on one core, so that few kernels are compiled twice.
test: lint
	$(BIN)/python -m pytest -n auto --dist loadfile

# What is worth running after every edit: no estimators, commands, files, docs.
test-fast: $(READY)
	$(BIN)/python -m pytest -n auto -q tests/core tests/engines tests/methods/test_rules.py tests/tools \
		tests/test_losses.py -k "not properties and not sklearn_agreement and not memory_is and not same_bits"

# The lowest versions of pyproject.toml.
$(OLDEST)/ready: pyproject.toml
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --upgrade pip
	$(OLDEST)/bin/python -m pip install --quiet --editable '.[test]' \
		'scikit-learn==1.6.*' 'numpy==2.0.*' 'scipy==1.13.*' 'numba==0.61.*'
	touch $@

test-oldest: $(OLDEST)/ready
	$(OLDEST)/bin/python -m pytest -n auto tests/estimators \
		tests/core/test_ctrl_c.py tests/core/test_sklearn_agreement.py tests/core/test_words.py \
		src/batchsvm/estimators

test-slow: $(READY)
	$(BIN)/python -m pytest -n auto -m slow

# Nothing is installed: a machine with a device may have no network.
GPU_TESTS ?= tests/gpu tests/engines/conformance*.py tests/engines/test_gpu_*.py tests/methods/test_gram*.py
test-gpu:
	@if $(PYTHON) tests/gpu/has_device.py; then \
		PYTHONPATH=src $(PYTHON) -m pytest -q -m "not slow" -k gpu -W default $(GPU_TESTS); \
	fi

docs: $(READY)
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

bench: $(READY)
	$(BIN)/python -m benchmarks.run $(BENCH)

clean:
	rm -rf docs/_build docs/examples $(VENV) $(OLDEST) build dist demo-output .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

reproduce: $(READY)
	$(BIN)/python -m experiments.run $(REPRODUCE)

reproduce-quick: $(READY)
	$(BIN)/python -m experiments.run --quick
