# tilebench: `make` lists what there is to do. Needs Python 3.11 or newer and make; the rest it sets up in .venv.

GPU    ?= auto
SHAPE  ?=
MODEL  ?=
ITER   ?=
GPUS   ?=
ARGS   ?=
PYTHON ?= python3

VENV   := .venv
CHOICE = --gpu '$(GPU)' $(if $(SHAPE),--shape '$(SHAPE)') $(if $(MODEL),--model '$(MODEL)') \
         $(if $(ITER),--iter '$(ITER)') $(ARGS)
MANY   = $(if $(GPUS),--gpus '$(GPUS)')
LOCKS  := requirements.lock requirements-cuda.lock
KEYS   = $(notdir $(patsubst %/,%,$(wildcard tuning/*/)))

ifdef TILEBENCH_IMAGE
# In the container the image is the environment.
PY      := python3
RUNTIME :=
DEV     :=
FLEET   :=
TOOLS   := true
OPPOSE  := echo "tilebench: an image holds the opponents that it was built with: docker build --build-arg OPPONENTS=1" >&2; exit 2
else
PY      := $(VENV)/bin/python
RUNTIME := $(VENV)/runtime.stamp
DEV     := $(VENV)/dev.stamp
FLEET   := $(if $(GPUS),$(VENV)/fleet.stamp)
TOOLS    = echo "tilebench: adding the CUDA compilers that are missing to $(VENV)" >&2; $(PIP) --editable ".[$$extra]"
OPPOSE   = $(PIP) --editable '.[$@]'
endif

# Tests of one file share a worker, and all that measure share one.
PYTEST = $(PY) -m pytest -n 2

# Each process would compile each module anew where an environment forbids bytecode: it would take thrice as long.
unexport PYTHONDONTWRITEBYTECODE

# What is installed is compiled at its first import: torch alone has thousands of modules that are never imported.
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check install -qq --no-compile --constraint $(VENV)/pins

# The locks' versions without their hashes: see requirements.lock.
PINS = sed -n 's/^\([A-Za-z0-9][^ ]*\).*/\1/p' $(LOCKS)

# For `make lock`: a pip with a resolver that copes, a uv that lists hashes, and torch's release: its build for the CPU
# needs none of the CUDA packages.
LOCKER := pip==26.3 uv==0.13.9
TORCH = $(shell sed -n 's/.*"torch==\([^"]*\)".*/\1/p' pyproject.toml)

# What talks to Docker needs none of what is large, so that a GPU machine with Docker is ready in seconds.
TALKER := $(VENV)-docker
LARGE  := torch|tilelang|vl-convert-python
TALKS  = $(shell sed -n '/^dependencies/,/^]/s/^ *"\([^"]*\)".*/\1/p' pyproject.toml | grep -vE '^($(LARGE))=')

# Both environments need these of the machine's Python, and a GPU this driver.
LEAST_DRIVER := 580
define VENV_CHECK
$(if $(filter-out 0,$(shell nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | \
  awk -F. 'NR == 1 && $$1 + 0 > 0 { print ($$1 < $(LEAST_DRIVER)) }')),\
  $(warning tilebench: the NVIDIA driver is older than $(LEAST_DRIVER), which CUDA 13 needs: update it; the CPU works without))
$(if $(shell $(PYTHON) -c 'import sys; print(sys.version_info >= (3, 11) or "")' 2>/dev/null),,\
  $(error tilebench needs Python 3.11 or newer, and $(PYTHON) is not: install one (apt install python3.12-venv, or uv python install 3.12), then name it: make PYTHON=/path/to/python3.12))
$(if $(shell $(PYTHON) -c 'import ensurepip, venv; print("present")' 2>/dev/null),,\
  $(error $(PYTHON) lacks its venv module; install it, on Debian and Ubuntu with: apt install python3-venv))
endef

# A misspelt variable would be ignored, and another run would start than was meant.
SETTINGS := $(shell sed -n 's/^\([A-Z]*\) *?=.*/\1/p' $(firstword $(MAKEFILE_LIST))) TILEBENCH_IMAGE
SPACE    := $(subst ,, )
STRANGE  := $(filter-out $(SETTINGS),$(foreach each,$(subst \$(SPACE),,$(MAKEOVERRIDES)),$(firstword $(subst =, ,$(each)))))
$(if $(STRANGE),$(error tilebench: '$(STRANGE)=' is no setting of this Makefile; it takes, in capitals: $(SETTINGS)))

# make ends with 2 whatever fails, so the line above its own says what the verb ended with.
define RUN
sh -c '"$$@"; code=$$?; [ $$code = 0 ] || echo "tilebench: exit code $$code ($$(echo rejected usage infrastructure | cut -d" " -f$$code)); make ends with 2" >&2; exit $$code' -- $(PY) -m harness
endef

MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help bench opponents verify tune build profile check check-all next leaderboard report selftest doctor test test-fast test-all fuzz docs lint lint-rules \
        lint-format lint-types format toolchain runtime dev image docker-bench lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { line = sprintf("  make %-12s", $$1); count = split($$2, words, " "); \
	  for (i = 1; i <= count; i++) { if (length(line words[i]) > 78) { print line; line = sprintf("%19s", "") } \
	  line = line " " words[i] } print line }' $(firstword $(MAKEFILE_LIST))
	@echo "Narrow a run with GPU=h200 (auto), SHAPE=matmul_bf16fp32_4096x4096x4096 or"
	@echo "SHAPE=matmul, MODEL=, ITER=3; GPUS=all; ARGS= takes the rest."

bench: toolchain $(FLEET) ## Verify and time the iterations against the library; print the leaderboard
	@$(RUN) bench $(CHOICE) $(MANY)

opponents: $(RUNTIME) ## Add what is measured beside the library; opponents-quack, -fa3, -fa4, -fla, -mla, -cublaslt add one
	@$(OPPOSE)

opponents-%: $(RUNTIME)
	@$(OPPOSE)

verify: toolchain $(FLEET) ## Compare the iterations with the reference; times nothing
	@$(RUN) verify $(CHOICE) $(MANY)

profile: toolchain $(FLEET) ## Say what bounds the leaders (or ITER=) and what to try next; needs a GPU and ncu
	@$(RUN) profile $(CHOICE) $(MANY)

tune: toolchain $(FLEET) ## Search a family's space for SHAPE= under MODEL= and pin the winner as the next iteration
	@$(RUN) tune $(CHOICE) $(MANY)

build: toolchain ## Compile for GPU=h200, show registers and more, append to builds.jsonl under tuning/; needs no GPU
	@$(RUN) build $(CHOICE)

toolchain: $(RUNTIME)
	@extra=$$($(PY) -m harness missing-extra --gpu '$(GPU)') || exit; \
	if [ -n "$$extra" ]; then { $(TOOLS); } || echo "tilebench: they could not be added; going on without" >&2; fi

check: $(RUNTIME) ## Check the contract on the sources of one GPU key
	@$(RUN) check $(CHOICE)

check-all: $(RUNTIME) ## Check the contract on every GPU key under tuning/
	@for key in $(KEYS); do echo "tuning/$$key"; $(PY) -m harness check --gpu $$key $(ARGS) || exit; done

next: $(RUNTIME) ## Show the state of one ladder, SHAPE= and MODEL=: what leads, what was tried, what to try
	@$(RUN) next $(CHOICE)

leaderboard: $(RUNTIME) ## Print the leader of each problem; with SHAPE= or ARGS=--all whole ladders
	@$(RUN) leaderboard $(CHOICE)

report: $(RUNTIME) ## Write all records as one HTML file, tuning/<gpu>/report.html
	@$(RUN) report $(CHOICE)

selftest: $(RUNTIME) ## Measure the harness: the library against itself
	@$(RUN) selftest $(CHOICE)

doctor: $(RUNTIME) ## Say what this machine has, what is missing, and what to do about it
	@$(RUN) doctor $(CHOICE)

test: $(DEV) ## Run the tests; at most 10 minutes on two cores
	@$(PYTEST) -m 'not slow' $(ARGS)

test-fast: $(DEV) ## Run those that need neither torch nor a process; within a minute, while you edit
	@$(PYTEST) --fast -rfE $(ARGS)

test-all: $(DEV) ## Run all tests, the slow ones too
	@$(PYTEST) $(ARGS)

fuzz: $(DEV) ## Ask each parser 10,000 times whether it takes or refuses what it gets; some minutes
	@HYPOTHESIS_PROFILE=thorough $(PY) -m pytest tests/fuzz --timeout 3600 $(ARGS)

docs: $(DEV) ## Write the generated parts of the documentation anew; ARGS=--check only says what is out of date
	@$(PY) -m docs.generator $(ARGS)

lint: lint-rules lint-format lint-types ## Lint, format and types

lint-rules: $(DEV)
	@$(PY) -m ruff check .

lint-format: $(DEV)
	@$(PY) -m ruff format --check .

lint-types: $(DEV)
	@$(PY) -m mypy

format: $(DEV) ## Rewrite the code as lint wants it
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

runtime: $(RUNTIME) ## Set up .venv to run the harness; every target does what it needs of this itself
	@:

dev: $(DEV) ## Set up .venv with the tools for tests and lint too
	@:

image: $(TALKER)/stamp ## Build the container image; ARGS='--base IMAGE --no-cuda --network host' vary it
	@$(TALKER)/bin/python -m harness image $(ARGS)

docker-bench: $(TALKER)/stamp ## Bench in the container, which is built where it is missing
	@$(TALKER)/bin/python -m harness run-in-docker bench $(CHOICE)

$(TALKER)/stamp: pyproject.toml $(LOCKS)
	$(VENV_CHECK)
	@echo "tilebench: installing what talks to Docker into $(TALKER), once; some seconds" >&2
	@$(PYTHON) -m venv --clear $(TALKER)
	@$(PINS) > $(TALKER)/pins
	@$(TALKER)/bin/python -m pip --disable-pip-version-check install -qq --constraint $(TALKER)/pins $(TALKS)
	@touch $@

$(VENV)/runtime.stamp: pyproject.toml $(LOCKS)
	$(VENV_CHECK)
	@echo "tilebench: installing the pinned versions into $(VENV), once; a minute or two, and the time of downloading torch" >&2
	@$(VENV)/bin/python -c 'import pip' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	@$(PINS) > $(VENV)/pins
	@$(PIP) --editable .
	@$(VENV)/bin/python -c 'import tilelang, torch'
	@$(VENV)/bin/python -m compileall -q harness kernels baselines
	@touch $@

$(VENV)/dev.stamp: $(VENV)/runtime.stamp
	@echo "tilebench: adding the tools for tests and lint to $(VENV); some seconds" >&2
	@$(PIP) --editable '.[dev]'
	@touch $@

$(VENV)/fleet.stamp: $(VENV)/runtime.stamp
	@echo "tilebench: adding Ray to $(VENV), for more than one GPU; some seconds" >&2
	@$(PIP) --editable '.[fleet]'
	@touch $@

lock: ## Write both locks anew from the versions in pyproject.toml
	@rm -rf $(VENV)-lock && $(PYTHON) -m venv $(VENV)-lock
	@$(VENV)-lock/bin/python -m pip --disable-pip-version-check install -qq $(LOCKER)
	@$(VENV)-lock/bin/python -m pip --disable-pip-version-check install -qq --dry-run --ignore-installed \
	  --report $(VENV)-lock/report.json --editable '.[dev,sass]' 'torch!=$(TORCH)+cpu'
	@$(VENV)-lock/bin/python .ci/lock.py $(VENV)-lock/report.json
	@rm -rf $(VENV)-lock

clean: ## Remove .venv and all caches; what is recorded under tuning/ stays
	@rm -rf $(VENV) $(VENV)-lock $(TALKER) .nox .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
