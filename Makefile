# Two commands do everything: `make demo` and `make test`. Both start from nothing but Python, make and git.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Tests and benchmarks start hundreds of processes: none of them should compile the sources again.
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/bytecode
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test lint check verifier vectors lock bench clean

demo: $(STAMP)
	$(BIN)/knowing demo

test: $(STAMP)
	$(BIN)/pytest -q -n auto

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test vectors-check

$(STAMP): requirements/dev.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

verifier: $(STAMP)
	$(BIN)/python tools/make_verifier.py dist/knowing-verify.pyz

vectors: $(STAMP)
	$(BIN)/python protocol/vectors/generate.py

.PHONY: vectors-check
vectors-check: $(STAMP)
	$(BIN)/python protocol/vectors/generate.py --check

# docs/openapi.json is written by a script, and a test says when it is behind.
.PHONY: openapi
openapi: $(STAMP)
	$(BIN)/python tools/make_openapi.py

bench: $(STAMP)
	$(BIN)/python tests/bench/run.py $(if $(WRITE),--write) $(ONLY)

lock: $(STAMP)
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header --upgrade \
	  pyproject.toml requirements/dev.in -o requirements/dev.lock

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis

# The numbers of docs/benchmarks.md on how right the graph is: needs the network and npm, about an hour the first time.
.PHONY: bench-quality
bench-quality: $(STAMP)
	PYTHONPATH=tests $(BIN)/python -m quality.oracle
	PYTHONPATH=tests $(BIN)/python -m quality.ours
	PYTHONPATH=tests $(BIN)/python -m quality.compare --require

# Random changes to real bundles: none may be accepted with another statement.
.PHONY: fuzz-bundles
fuzz-bundles: $(STAMP)
	$(BIN)/python tests/prove/fuzz.py $(or $(COUNT),100000) $(SEED)

# A real history, commit by commit: indexing what changed must give the graph of the whole tree.
.PHONY: replay
replay: $(STAMP)
	$(BIN)/python tests/index/replay.py $(GIT) $(or $(COUNT),200)
