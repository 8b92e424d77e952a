# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= 2

.PHONY: help install demo test lint slow bench systems mutants clean

help:
	@echo "make install   build .venv with graphsde and its development tools"
	@echo "make demo      train on the embedded graph, write runs/demo/report.html"
	@echo "make test      lint, types, tests (some 7 minutes on two quiet cores; a busy machine only takes longer)"
	@echo "make slow      the longer studies"
	@echo "make bench     timing and memory against peers"
	@echo "make mutants   small mistakes planted in the numerical core: does a test notice each? (an hour; resumes)"
	@echo "make systems   every system beside its published figures (hours; resumes)"

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	# torch first and alone: with the exact pin pip takes the CPU build where one is at hand
	$(BIN)/python -m pip install --quiet -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $(STAMP)

demo: install
	$(BIN)/graphsde demo

lint: install
	$(BIN)/ruff check src tests benchmarks studies examples
	$(BIN)/ruff format --check src tests benchmarks studies examples
	$(BIN)/mypy

test: lint
	# one thread per worker: two workers on two cores would otherwise wait for each other; a file stays in one worker
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadfile

slow: install
	$(BIN)/python -m pytest -m slow

bench: install
	@for script in benchmarks/[a-z]*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

systems: install
	$(BIN)/python studies/systems.py

mutants: install
	OMP_NUM_THREADS=1 $(BIN)/python studies/mutants.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
