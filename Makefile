# Two commands set up everything on a machine with Python 3.11+ and make:
#   make demo   trains with the methods of the paper on two data sets and saves a plot
#   make test   linters, types, layers, tests
# `make test-fast` runs the tests of the core and of the engines, in a minute and a half.
# `make test-oldest` runs the tests of the estimators with the oldest scikit-learn that is supported,
# in an environment of its own.
# `make test-gpu` runs the tests of the gpu engine on a CUDA device, with the Python named by PYTHON, which
# needs pytest and CuPy, and without an environment of its own; where there is no device, it says so.
# `make sanitize-gpu` runs them under compute-sanitizer.
# `make test-ray` runs the tests of the ray engine on a small cluster on this machine, in an environment
# of its own, since Ray is large.
# `make docs` builds the documentation into docs/_build/html, `make test-slow` fuzzes.
# `make dist` builds a wheel and an sdist into dist/, installs each into a fresh environment and uses it.
# `make reproduce` runs the paper's experiments (BATCHSVM_DATA names the folder of the data),
# `make reproduce-quick` a small version that needs no data, and `make reproduce REPRODUCE=--missing`
# only what the report in docs/reproduction lacks.
# `make bench` races against other solvers, on the same data, and continues a race that was interrupted;
# `make bench BENCH='race --quick'` tries it on tiny data, in a minute.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
OLDEST := .venv-oldest
RAY := .venv-ray
DIST := .venv-dist

.PHONY: demo test test-fast test-oldest test-slow test-gpu sanitize-gpu test-ray lint docs dist bench reproduce reproduce-quick clean

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

# Ray is large: it has an environment of its own, and the tests that need it are skipped elsewhere.
$(RAY)/ready: pyproject.toml
	$(PYTHON) -m venv $(RAY)
	$(RAY)/bin/python -m pip install --quiet --upgrade pip
	$(RAY)/bin/python -m pip install --quiet --editable '.[test,tables,ray]'
	touch $@

# One process: workers of one cluster are all that two cores can take.
test-ray: $(RAY)/ready
	$(RAY)/bin/python -m pytest -q tests/cluster tests/engines/test_ray_rounds.py
	$(RAY)/bin/python -m pytest -q -k ray tests/engines/conformance*.py

# Nothing is installed: a machine with a device may have no network.
GPU_TESTS ?= tests/gpu tests/engines/conformance*.py tests/engines/test_gpu_*.py tests/methods/test_gram*.py
test-gpu:
	@if $(PYTHON) tests/gpu/has_device.py; then \
		PYTHONPATH=src $(PYTHON) -m pytest -q -m "not slow" -k gpu -W default $(GPU_TESTS); \
	fi

# compute-sanitizer of the CUDA toolkit over the same tests; it takes several minutes.
SANITIZED ?= tests/gpu tests/engines/conformance*.py
sanitize-gpu:
	@if $(PYTHON) tests/gpu/has_device.py; then \
		for tool in memcheck racecheck; do \
			BATCHSVM_OWN_ALLOCATIONS=1 PYTHONPATH=src compute-sanitizer --tool $$tool --error-exitcode 3 \
				$(PYTHON) -m pytest -q -m "not slow" -k gpu -W default $(SANITIZED) || exit 1; \
		done; \
	fi

docs: $(READY)
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

# The sdist is built from the checkout, the wheel from the sdist.
dist:
	rm -rf dist
	$(PYTHON) -m venv $(DIST)
	$(DIST)/bin/python -m pip install --quiet --upgrade pip build twine
	$(DIST)/bin/python -m build --outdir dist .
	$(DIST)/bin/python -m twine check --strict dist/*
	$(DIST)/bin/python tests/tools/check_dist.py dist/*.whl dist/*.tar.gz

bench: $(READY)
	$(BIN)/python -m benchmarks.run $(BENCH)

clean:
	rm -rf docs/_build docs/examples $(VENV) $(OLDEST) $(RAY) $(DIST) build dist demo-output .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

reproduce: $(READY)
	$(BIN)/python -m experiments.run $(REPRODUCE)

reproduce-quick: $(READY)
	$(BIN)/python -m experiments.run --quick
