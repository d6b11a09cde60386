PYTHON ?= python3
KILLS  ?= 200
ARGS   ?=

BIN   := .venv/bin
READY := .venv/.ready

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# What is never imported need not be compiled; what is, only once.
unexport PYTHONDONTWRITEBYTECODE
PIP_INSTALL := $(BIN)/python -m pip install --quiet --quiet --no-input --no-compile

.DEFAULT_GOAL := help
.PHONY: demo serve test thorough test-browser web screens docs dist check bench spec crash lock clean help
.DELETE_ON_ERROR:

demo: $(READY) ## run the demonstration
	$(BIN)/python examples/demo.py
	$(BIN)/python examples/downloads.py

serve: export TASKYARD_URL ?= sqlite:///build/service/demo.db
serve: web ## serve a small media service with its dashboard, until Ctrl-C; ARGS="--port 9000"
	@mkdir -p build/service
	@$(BIN)/taskyard enqueue examples/service.py:yard visitors --dedup visitors --json > /dev/null
	@exec $(BIN)/taskyard serve examples/service.py:yard --folder build/service/.taskyard --grace 1 $(ARGS)

test: $(READY) ## run the tests; ARGS="-k fencing" passes options on to pytest
	$(BIN)/python -m pytest -n 4 --dist=loadfile --no-loadscope-reorder --ignore=tests/browser $(ARGS)

web: $(READY) ## build the dashboard into the package
	@$(BIN)/python tools/build_dashboard.py

test-browser: web ## drive the dashboard in a real Chromium, which is installed if that is possible
	@command -v chromium > /dev/null || { apt-get update -qq; apt-get install -y -qq chromium; } > /dev/null
	$(BIN)/python -m pytest tests/browser $(ARGS)

screens: web ## take the pictures of docs/screens anew
	$(BIN)/python -m tests.browser.screens

# Not with --quiet: it keeps warnings from being counted, and so the build from failing.
docs: .venv/.docs ## build the docs site into site/; what is not right is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --clean
	@echo $(CURDIR)/site/index.html

dist: web ## build the sdist and the wheel, dashboard included
	$(BIN)/python -m build --no-isolation

thorough: $(READY) ## run the random and exhaustive tests at full size; ARGS="-k postgres"; takes an hour or more
	TASKYARD_TEST_THOROUGH=1 TASKYARD_TEST_EXAMPLES=1000 TASKYARD_TEST_GOOD=1000 \
		$(BIN)/python -m pytest $(ARGS) tests/model tests/crash/test_mutants.py tests/engine/test_suspects.py \
		tests/engine/test_isolated_deaths.py tests/engine/test_shared_enqueue.py tests/conformance/test_graphs.py \
		tests/conformance/test_free_room.py tests/conformance/test_side_by_side.py

check: $(READY) ## lint, formatting, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: $(READY) ## run the benchmarks; STORE=postgres PEERS=pgqueuer,awa N=20000 ROUNDS=10; ARGS chooses which
	$(BIN)/python -m bench $(if $(STORE),--store $(STORE)) $(if $(PEERS),--peers $(PEERS)) \
		$(if $(N),--tasks $(N)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(ARGS)

spec: $(READY) ## show which statements of docs/spec are shown by a test or a benchmark
	$(BIN)/python tools/spec_coverage.py $(ARGS)

crash: $(READY) ## kill workers at random and check what is promised; STORE=sqlite KILLS=200
	$(BIN)/python -m tests.crash --store $(or $(STORE),sqlite) --kills $(KILLS) $(ARGS)

lock: $(READY) ## pin requirements/ anew from pyproject.toml; ARGS=--upgrade for newer versions
	$(BIN)/uv --no-config pip compile --quiet --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-emit-find-links \
		--custom-compile-command "make lock" \
		--all-extras --group dev $(ARGS) -o requirements/dev.txt pyproject.toml > /dev/null
	$(BIN)/uv --no-config pip compile --quiet --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-emit-find-links \
		--custom-compile-command "make lock" \
		--constraints requirements/dev.txt --group docs $(ARGS) -o requirements/docs.txt > /dev/null

clean: ## remove everything that make has made, .venv too
	rm -rf .venv .venv-peers build dist site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis \
		web/node_modules src/taskyard/server/static
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' \
		| while IFS="$$(printf '\t')" read -r name text; do printf '  %-12s %s\n' "$$name" "$$text"; done

$(READY): requirements/dev.txt pyproject.toml
	@command -v $(PYTHON) > /dev/null || { \
		echo "$(PYTHON) not found; choose one with: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Taskyard needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1)." \
			"Choose another with: make PYTHON=python3.12" >&2; exit 1; }
	@echo "setting up .venv"
	@$(PYTHON) -m venv .venv
	@$(PIP_INSTALL) --require-hashes -r requirements/dev.txt
	@$(PIP_INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

# Only the docs site needs these; they agree with what is there.
.venv/.docs: $(READY) requirements/docs.txt
	@$(PIP_INSTALL) --require-hashes -r requirements/docs.txt
	@touch $@
