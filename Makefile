# Two commands matter: `make demo` shows what tidewire does, `make test` checks it. Both set themselves up.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
JARS := $(VENV)/.jars
NATIVE := $(VENV)/.native
QUIX := $(VENV)/quix/.ready
WORKERS ?= 3

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-13s %s\n", $$1, $$2 }'

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tidewire needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(JARS): $(READY) src/tidewire/spark/jars.lock.toml
	$(BIN)/tidewire jars
	@touch $@

LEFT_OUT = The native kernel was left out:
PYTHON_READS = The Python kernel does the same, more slowly.

# Cargo.lock is not kept, so its presence says nothing; the sources do. A failed build is tried again the next time.
$(NATIVE): $(READY) native/Cargo.toml native/pyproject.toml $(wildcard native/src/*.rs native/src/*/*.rs)
	@if ! command -v cargo >/dev/null; then \
		echo "$(LEFT_OUT) cargo is not here. $(PYTHON_READS)"; \
	elif CARGO_NET_RETRY=1 CARGO_HTTP_TIMEOUT=20 $(BIN)/pip install --quiet --disable-pip-version-check ./native \
		>$(VENV)/native.log 2>&1; then \
		touch $@; \
	else \
		echo "$(LEFT_OUT) its build failed, see $(VENV)/native.log. $(PYTHON_READS)"; \
	fi

# Quix Streams holds the client of Kafka back at an older version, so it lives apart from everything else.
$(QUIX): $(READY)
	$(PYTHON) -m venv $(VENV)/quix
	$(VENV)/quix/bin/pip install --quiet --disable-pip-version-check 'quixstreams>=3.28,<4'
	@touch $@

.PHONY: setup
setup: $(JARS) $(NATIVE) ## Create the virtual environment, build the native kernel, fetch the Spark jars

.PHONY: native
native: $(NATIVE) ## Build the native kernel, if cargo is installed

.PHONY: demo
demo: $(JARS) ## Run the demo: a workload in five protocols becomes tables, which are checked
	@$(BIN)/tidewire demo

.PHONY: test
test: $(JARS) $(NATIVE) $(QUIX) ## Run all tests
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: matrix
matrix: $(JARS) ## Sync every recorded topic in every protocol, format and mode (takes an hour)
	$(BIN)/pytest -n 2 --maxschedchunk 1 -m matrix tests/spark

.PHONY: fuzz
fuzz: $(READY) $(NATIVE) ## Give damaged messages and odd values to the codec and both kernels, for twenty minutes
	@PYTHONPATH=tests $(BIN)/python -m fuzz_kernels 600
	@PYTHONPATH=tests $(BIN)/python -m odd_values --minutes 10

SANITIZED := $(VENV)/sanitized
UNDER_SANITIZER = PYTHONPATH=$(SANITIZED):tests TIDEWIRE_KERNEL=native PYTHONMALLOC=malloc \
	ARROW_DEFAULT_MEMORY_POOL=system ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD=$$(gcc -print-file-name=libasan.so)

# Python and Arrow take their memory from malloc, so that the sanitizer sees the bounds of every array. It needs an
# option of rustc that only nightly versions have; RUSTC_BOOTSTRAP gives it to a stable one.
.PHONY: sanitize
sanitize: $(READY) ## Build the native kernel with AddressSanitizer, and run its tests and a minute of `make fuzz` with it
	cd native && RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address cargo build --release --features extension-module \
		--target $$(rustc -vV | sed -n 's/^host: //p') --target-dir ../$(SANITIZED)
	cp $(SANITIZED)/*-*/release/libtidewire_native.so $(SANITIZED)/tidewire_native.abi3.so
	$(UNDER_SANITIZER) $(BIN)/pytest -q -p no:xdist tests/arrow/test_kernels.py tests/arrow/test_encode.py
	$(UNDER_SANITIZER) $(BIN)/python -m fuzz_kernels 60

.PHONY: stores
stores: $(JARS) ## Sync into S3 with a REST catalog, Glue and PostgreSQL, and into HDFS, with crashes and competing drivers; put files into Azurite
	$(BIN)/pytest -v -m "stores or not stores" tests/integration/test_stores.py tests/test_storage.py

.PHONY: spark-matrix
spark-matrix: $(READY) ## Run the DataFrame transforms on Spark 3.5 to 4.3 and Spark Connect
	@PYTHONPATH=tests $(BIN)/python -m spark_versions $(VENV)/spark

.PHONY: check
check: $(READY) ## Format, lint, type-check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

.PHONY: bench
bench: $(JARS) $(NATIVE) ## Measure everything and write docs/benchmarks.md
	@$(BIN)/python benchmarks/page.py

.PHONY: kafka
kafka: $(READY) ## Run a Kafka broker on port 9092, to try things out
	@PYTHONPATH=tests $(BIN)/python -m integration.kafka

.PHONY: docs
docs: $(JARS) ## Run every example in the documentation
	$(BIN)/pytest -q tests/test_docs.py

.PHONY: clean
clean: ## Delete everything that make created
	rm -rf $(VENV) native/target native/Cargo.lock build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
