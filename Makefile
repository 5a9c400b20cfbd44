# Everything a developer runs. `make help` lists it.
SHELL := bash
PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
FUZZ_SECONDS ?= 600
N ?= 1000000
TORCH ?=
STAMP := $(VENV)/.firstnan-built
SOURCES := $(shell find rust/firstnan-core rust/firstnan-ingest rust/firstnan-python schemas -type f -not -path '*/target/*') Cargo.toml Cargo.lock pyproject.toml
export JAX_PLATFORMS ?= cpu

.PHONY: help demo test test-rust test-python test-training test-others lint generate check-generated generate-types bench fuzz conformance spark torch differential \
	build clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

$(BIN)/python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or later is needed: make PYTHON=…"'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python tools/install_test_tools.py
	@touch $@

$(STAMP): $(VENV)/.installed $(SOURCES)
	PIP_QUIET=1 $(BIN)/maturin develop --release --quiet
	@touch $@

build: $(STAMP) ## build the extension and install the package into .venv

demo: build ## train on real digits until the step goes non-finite; triage, hold, show, restart
	$(BIN)/python examples/digits.py

test: build ## every Rust and Python test, the linters, the generated files: three at a time, since many tests wait
	$(MAKE) --no-print-directory --output-sync=target --jobs=3 test-rust test-training test-others lint check-generated

test-rust: ## cargo test of the workspace
	env -u MAKEFLAGS -u MFLAGS cargo test --workspace --locked --quiet

test-python: build ## pytest, in two processes that take about as long
	$(MAKE) --no-print-directory --output-sync=target --jobs=2 test-training test-others

# Without MAKEFLAGS: cargo, where a test runs it, would look for this make's jobserver.
test-training: build
	env -u MAKEFLAGS $(BIN)/python -m pytest -q tests/jax -o cache_dir=.pytest_cache/training
	env -u MAKEFLAGS $(BIN)/python -m pytest -q tests/supervisor -o cache_dir=.pytest_cache/training

test-others: build
	env -u MAKEFLAGS $(BIN)/python -m pytest -q --ignore tests/jax --ignore tests/supervisor

lint: build ## clippy, rustfmt, ruff, mypy, stubtest, import direction, the released schemas
	cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
	cargo fmt --all --check
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest firstnan._core
	$(BIN)/python tools/check_imports.py
	$(BIN)/python tools/compat.py "$$(ls -d schemas/released/v*/ | sort -V | tail -1)bundle.json" schemas/bundle.json

generate: $(VENV)/.installed ## make the generated files from schemas/v1
	$(BIN)/python tools/generate.py

check-generated: $(VENV)/.installed ## fail where a generated file is not what the schemas make
	$(BIN)/python tools/generate.py --check

bench: build ## our speed and the peers' in one process, as ratios
	$(BIN)/python benches/run.py

conformance: build ## the same vectors in five languages, against our own answers; docs/other-languages.md
	$(BIN)/python conformance/run.py
	$(BIN)/python conformance/round_trip.py

out/spark/.installed: pyproject.toml | $(BIN)/python
	rm -rf out/spark
	$(BIN)/python tools/install_test_tools.py spark --no-cache-dir --target out/spark
	@touch $@

spark: build out/spark/.installed ## the Spark adapter against one machine, byte for byte; needs Java 17 or later, brings PySpark
	env -u MAKEFLAGS PYTHONPATH=out/spark $(BIN)/python -m pytest -q -p no:unraisableexception tests/ingest/spark_workers.py

torch: build ## count tensors of a real PyTorch, which .venv or the folder TORCH=… has
	env -u MAKEFLAGS PYTHONPATH=$(TORCH) $(BIN)/python -m pytest -q -p no:warnings tests/jax/torch_tensors.py -o cache_dir=.pytest_cache/torch

generate-types: $(VENV)/.installed ## make types/ from schemas/v1; needs node, go, a JDK with mvn, and cargo
	$(BIN)/python tools/generate_types.py

differential: build ## N (1,000,000) random records against jsonschema-rs and CEL; SEED=… for an earlier run
	PYTHONPATH=tests $(BIN)/python -m differential.run --count $(N) $(if $(SEED),--seed $(SEED))

fuzz: ## each fuzz target for FUZZ_SECONDS (600); needs the nightly toolchain and cargo-fuzz
	rust/fuzz/run.sh $(FUZZ_SECONDS)

clean: ## remove what was built
	rm -rf $(VENV) target out dist conformance/node/node_modules conformance/java/target
