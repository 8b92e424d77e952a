# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= 2

# tests start some hundred processes of Python: each would compile the package anew where a shell forbids compiled files
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo test lint docs search slow bench systems reliability mutants clean

help:
	@echo "make install   build .venv with graphsde and its development tools"
	@echo "make demo      train on the embedded graph, write runs/demo/report.html"
	@echo "make test      lint, types, tests (under ten minutes on two quiet cores; a busy machine only takes longer)"
	@echo "make docs      build the documentation site into site/, every warning an error (a minute)"
	@echo "make search    property tests on examples drawn anew, which may find what the suite has not"
	@echo "make slow      the longer studies"
	@echo "make bench     time and memory beside peers, then docs/performance.md (some 50 minutes on a quiet machine; resumes)"
	@echo "make reliability  kills, failing disks, damaged files, hostile input, rival writers (under an hour; resumes)"
	@echo "make mutants   small mistakes planted in the numerical core: does a test notice each? (an hour; resumes)"
	@echo "make systems   every system beside its published figures (hours; resumes)"

install: $(STAMP)

LOCKED := --quiet --quiet --require-hashes --no-deps --only-binary :all:

# Nothing is installed whose hash is not in constraints.txt; "python studies/locked_hashes.py" makes it anew.
$(STAMP): pyproject.toml constraints.txt constraints-cuda.txt
	$(PYTHON) -m venv $(VENV)
	# pip prefers files of an index, whose hashes it knows beforehand, to a CPU build of torch in a folder (find-links):
	# so that build comes first and alone, with the same hashes
	sed -n '/^torch==/,/[^\\]$$/p' constraints.txt > $(VENV)/torch.txt
	$(BIN)/python -m pip install $(LOCKED) --no-index -r $(VENV)/torch.txt 2>/dev/null \
		|| echo "no CPU build of torch is at hand: the index's build will be taken"
	$(BIN)/python -m pip install $(LOCKED) -r constraints.txt
	# the index's build of torch for Linux is not complete without CUDA, which a CPU build has no use for
	if $(BIN)/python -m pip check | grep -q '^torch .* requires cuda'; then \
		$(BIN)/python -m pip install $(LOCKED) -r constraints-cuda.txt; fi
	$(BIN)/python -m pip install --quiet --quiet --no-deps --no-build-isolation -e .
	$(BIN)/python -m pip check
	touch $(STAMP)

demo: install
	$(BIN)/graphsde demo

lint: install
	$(BIN)/ruff check src tests benchmarks studies examples reliability
	$(BIN)/ruff format --check src tests benchmarks studies examples reliability
	$(BIN)/mypy

test: lint
	# one thread per worker: two workers on two cores would otherwise wait for each other, and a test that asks for two
	# threads must not spin while it waits (twenty times slower on busy cores); a file stays in one worker
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

# no network; notebooks are shown as they were run last (python studies/tutorials.py runs them again)
docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# property tests on examples that nobody has tried yet
search: install
	HYPOTHESIS_PROFILE=search OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadfile \
		$$(grep -rlE "^@given" tests)

slow: install
	$(BIN)/python -m pytest -m slow

bench: install
	$(BIN)/python benchmarks/everything.py

# the fuzzer is needed here alone; a violated guarantee is an exit code, and the page is written in any case
reliability: install
	$(BIN)/python -m pip install $(LOCKED) -r reliability/fuzzer.txt || echo "without atheris: nothing new is fuzzed"
	$(BIN)/python -m reliability --jobs $(JOBS); code=$$?; $(BIN)/python -m reliability page; exit $$code

systems: install
	$(BIN)/python studies/systems.py

mutants: install
	OMP_NUM_THREADS=1 $(BIN)/python studies/mutants.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
