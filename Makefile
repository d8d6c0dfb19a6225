# Two commands matter: `make demo` shows what tidewire does, `make test` checks it. Both set themselves up.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
JARS := $(VENV)/.jars
WORKERS ?= 3

.DEFAULT_GOAL := help

.PHONY: help
help: ## Say what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-13s %s\n", $$1, $$2 }'

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tidewire needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(JARS): $(READY) src/tidewire/spark/jars.lock.toml
	$(BIN)/tidewire jars
	@touch $@

.PHONY: setup
setup: $(JARS) ## Make the virtual environment and fetch the Spark jars

.PHONY: demo
demo: $(JARS) ## A tour: a workload in five protocols becomes tables, checked
	@$(BIN)/tidewire demo

.PHONY: test
test: $(JARS) ## Run all tests
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: matrix
matrix: $(JARS) ## Sync every recorded topic in every protocol, format and mode, for hours
	$(BIN)/pytest -n 2 --maxschedchunk 1 -m matrix tests/spark/test_matrix.py

.PHONY: spark-matrix
spark-matrix: $(READY) ## Run the DataFrame transforms on Spark 3.5 to 4.3 and Spark Connect
	@PYTHONPATH=tests $(BIN)/python -m spark_versions $(VENV)/spark

.PHONY: check
check: $(READY) ## Format, lint, type-check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

.PHONY: bench
bench: $(JARS) ## Measure everything and write docs/benchmarks.md
	@$(BIN)/python benchmarks/page.py

.PHONY: kafka
kafka: $(READY) ## Run a Kafka broker on port 9092 to play with
	@PYTHONPATH=tests $(BIN)/python -m integration.kafka

.PHONY: docs
docs: $(JARS) ## Run every example in the documentation
	$(BIN)/pytest -q tests/test_docs.py

.PHONY: clean
clean: ## Remove what was made here
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
