# One virtual environment, made from the pinned lock; every target runs inside it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest

.PHONY: help venv demo test unit contract chaos simulate soak bench kube-apiserver check format lock clean
help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Sexton needs Python 3.11 or newer; set PYTHON=python3.x" if sys.version_info < (3, 11) else 0)'
	@echo "making $(VENV) from the pinned lock, about a minute the first time"
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(READY)

venv: $(READY) ## the virtual environment alone

demo: $(READY) ## lose a composition's history and watch Sexton recover it
	$(BIN)/sexton demo

test: $(READY) ## every test, half an hour of two cores
	$(PYTEST)

unit: $(READY) ## only the pure tests, a minute or two
	$(PYTEST) tests/unit

contract: $(READY) ## the API contract on the in-memory store, over HTTP, and on a real kube-apiserver if one is built
	$(PYTEST) tests/contract

chaos: $(READY) ## a backlog while workers are killed and Redis is restarted; some five minutes
	$(PYTEST) tests/chaos

simulate: $(READY) ## every fault on purpose, then every guard taken away; ten minutes of two cores
	$(BIN)/python -m tests.simulation
	$(BIN)/python -m tests.simulation --mutants

SECONDS ?= 600
soak: $(READY) ## random faults in longer schedules, for SECONDS seconds (600)
	$(BIN)/python -m tests.simulation --seconds $(SECONDS)

BENCH ?=
bench: $(READY) ## what it costs, beside what people would use instead; BENCH=--quick for not quite two minutes
	$(BIN)/python -m bench $(BENCH)

kube-apiserver: ## build a real kube-apiserver, kubectl and etcd for the tests (needs Go; once per machine)
	tests/kube-apiserver/build.sh

check: $(READY) ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY) ## rewrite the sources in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: $(READY) ## resolve pyproject.toml anew into requirements.lock
	$(BIN)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --upgrade \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet -o requirements.lock
	$(BIN)/uv pip compile pyproject.toml --extra flower --extra build --universal --python-version 3.11 \
	  --constraint requirements.lock \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet -o deploy/requirements.lock

clean: ## remove what make made
	rm -rf $(VENV) .artifacts build dist .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
