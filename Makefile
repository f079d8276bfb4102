# The front door: `make` alone prints what can be done. A target sets up what it needs, once: stamp files in .venv/ and
# build/ remember it, so a second run with nothing changed sets nothing up again. Nothing is written outside .venv/,
# build/ and the user's cache folder, except by `format`, `manifests`, `lock` and `bench`, which write what is in git.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# The first Python that is new enough; `make PYTHON=/path/to/python3.12 …` chooses another.
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v $$python; break; }; done)

# Handed to pytest: make unit ARGS="-k queue -x"
ARGS ?=
# Steps that `make test` leaves out, and says so: make test SKIP=cluster
SKIP ?=
# Of the long random tests; a printed seed repeats a run: make soak SEED=7
ifndef SEED
SEED := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
endif

BIN := .venv/bin
BENCH := build/bench/bin
STARTED := $(shell date +%s)

export HYPOTHESIS_STORAGE_DIRECTORY := $(CURDIR)/build/hypothesis
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

# A virtual environment in $(1). Debian ships Python without the part that makes one: root gets it, others are told how.
define virtual_environment
	@test -n "$(PYTHON)" || { echo "make: Edgewright needs Python 3.11 or newer and found none: install it, or name it with make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
		package="python$$("$(PYTHON)" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"; \
		if test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
			echo "$(1): installing $$package, which $(PYTHON) needs to make virtual environments"; \
			DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet=2 --no-install-recommends "$$package" >/dev/null \
			|| { apt-get update --quiet=2 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet=2 --no-install-recommends "$$package" >/dev/null; }; \
		else \
			echo "make: $(PYTHON) cannot make virtual environments: install its venv module (on Debian and Ubuntu: apt-get install $$package)" >&2; exit 1; \
		fi; }
	@echo "$(1): setting up a virtual environment with $$("$(PYTHON)" --version) ..."
	@"$(PYTHON)" -m venv $(1)
endef

# The program $(1), which Debian has in the package $(2): root gets it, others are told how.
define debian_package
	@command -v $(1) >/dev/null || { \
		if test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
			echo "$@: installing $(2)"; \
			DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet=2 --no-install-recommends $(2) >/dev/null \
			|| { apt-get update --quiet=2 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet=2 --no-install-recommends $(2) >/dev/null; }; \
		else \
			echo "make $@: $(1) is needed: install it (on Debian and Ubuntu: apt-get install $(2))" >&2; exit 1; \
		fi; }
endef

##@ Everyday

.PHONY: help
help: ## Print this list.
	@if test -t 1; then bold=$$'\e[1m' cyan=$$'\e[36m' plain=$$'\e[0m'; else bold= cyan= plain=; fi; \
	awk -v bold="$$bold" -v cyan="$$cyan" -v plain="$$plain" 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s%s%s\n", bold, substr($$0, 5), plain } \
		/^[a-z0-9]+:.*## / { printf "  %s%-11s%s %s\n", cyan, $$1, plain, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: venv ## Flash 12 simulated devices on an embedded control plane and show what was proven: under a minute.
	@$(BIN)/edgewright demo

# The steps of `make test`, in order: what fails soonest comes first, and what follows `kubernetes` needs it.
STEPS := lint unit kubernetes local e2e conformance cluster

.PHONY: test
test: venv ## Run lint and every suite, and print how long each took (SKIP="cluster" leaves steps out).
	@rm -rf build/reports; code=0; table=; skipped=; \
	for step in $(STEPS); do \
		reason=; \
		case " $(SKIP) " in *" $$step "*) reason="SKIP asks for it";; esac; \
		if test "$$(uname -s)" != Linux; then case $$step in kubernetes|local|e2e|conformance|cluster) reason="it needs Linux";; esac; fi; \
		if test -n "$$reason"; then skipped+="  $$step: $$reason"$$'\n'; continue; fi; \
		echo "== $$step"; started=$$(date +%s); result=passed; $(MAKE) $$step || { result=FAILED; code=1; }; \
		table+=$$(printf '  %-11s %-7s %5d s' $$step $$result $$(($$(date +%s) - started)))$$'\n'; \
		if test $$step = kubernetes -a $$result = FAILED; then skipped+="  local, conformance, cluster: Kubernetes could not be built"$$'\n'; break; fi; \
	done; \
	skipped+=$$(sed -n 's/<testcase/\n&/gp' build/reports/*.xml 2>/dev/null | \
		sed -nE 's/^<testcase classname="([^"]*)" name="([^"]*)".*<skipped [^>]*message="([^"]*)".*/  \1.\2: \3/p' | \
		sed 's/&quot;/"/g; s/&lt;/</g; s/&gt;/>/g; s/&#10;/ /g; s/&amp;/\&/g' || true); \
	echo "== make test"; printf '%s' "$$table"; \
	printf '  %-11s %-7s %5d s (with what had to be set up)\n' all "$$(test $$code = 0 && echo passed || echo FAILED)" $$(($$(date +%s) - $(STARTED))); \
	if test -n "$$skipped"; then echo "  skipped:"; printf '%s\n' "$${skipped%$$'\n'}" | sed 's/^/  /'; else echo "  skipped: nothing"; fi; \
	exit $$code

.PHONY: lint
lint: venv ## Check style, formatting, types and the direction of imports.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --cache-dir build/import-linter

.PHONY: format
format: venv ## Format the code and mend what ruff can mend.
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

# How much of the code must be covered is said in pyproject.toml (tool.coverage.report).
# A part of the suite covers a part of the code: with ARGS only the tests are run.
.PHONY: unit
unit: venv ## Run the tests that need no cluster, and hold the code above 95 % coverage (ARGS="-k queue" runs some).
	@mkdir -p build/reports build/coverage
ifeq ($(strip $(ARGS)),)
	@rm -f build/coverage/data*; code=0; rooms="local controllers cli devices"; \
	echo "side by side: the tests of $$rooms, whose output comes afterwards, and the rest"; \
	run() { name=$$1; shift; $(BIN)/coverage run --parallel-mode -m pytest "$$@" -m "not soak" --junitxml=build/reports/$$name.xml; }; \
	beside=; for room in $$rooms; do run unit-$$room tests/unit/$$room >build/reports/unit-$$room.log 2>&1 & beside+=" $$!"; done; \
	run unit tests/unit $$(printf -- '--ignore=tests/unit/%s ' $$rooms) || code=$$?; \
	for each in $$beside; do wait $$each || code=$$?; done; \
	for room in $$rooms; do cat build/reports/unit-$$room.log; done; exit $$code
	@$(BIN)/coverage combine --quiet
	$(BIN)/coverage report
else
	$(BIN)/pytest tests/unit -m "not soak" $(ARGS)
endif

# Of Kubernetes they need kubectl alone.
.PHONY: local
local: venv kubernetes ## Run the tests of `edgewright up` as a process: it is killed, filled, asked wrongly (ARGS="-k kill" runs some).
	@mkdir -p build/reports
ifeq ($(strip $(ARGS)),)
	@code=0; half="tests/local/test_durability.py tests/local/test_limits.py tests/local/test_sync_trace.py"; \
	echo "two halves side by side: $$half, whose output comes second, and the rest"; \
	$(BIN)/pytest $$half -m "not soak" --junitxml=build/reports/local-2.xml >build/reports/local-2.log 2>&1 & beside=$$!; \
	$(BIN)/pytest tests/local $$(printf -- '--ignore=%s ' $$half) -m "not soak" --junitxml=build/reports/local.xml || code=$$?; \
	wait $$beside || code=$$?; cat build/reports/local-2.log; exit $$code
else
	$(BIN)/pytest tests/local -m "not soak" $(ARGS)
endif

# NAME="Watchers" runs the tests that have this in their name.
NAME ?=

.PHONY: conformance
conformance: venv kubernetes ## Run Kubernetes' own conformance tests on `edgewright up` (NAME="Watchers" runs some).
	@$(BIN)/python hack/kubernetes/build.py e2e.test
	$(BIN)/python -m tests.conformance $(if $(NAME),"$(NAME)")

.PHONY: cluster
cluster: venv kubernetes ## Run the tests on a real Kubernetes, which they start and stop (ARGS="-k lease" runs some).
	@mkdir -p build/reports
ifeq ($(strip $(ARGS)),)
	@code=0; echo "two halves side by side: tests/cluster/flash, whose output comes second, and the rest"; \
	$(BIN)/pytest tests/cluster/flash -m "not soak" --junitxml=build/reports/flash.xml >build/reports/flash.log 2>&1 & beside=$$!; \
	$(BIN)/pytest tests/cluster --ignore=tests/cluster/flash -m "not soak" --junitxml=build/reports/cluster.xml || code=$$?; \
	wait $$beside || code=$$?; cat build/reports/flash.log; exit $$code
else
	$(BIN)/pytest tests/cluster -m "not soak" $(ARGS)
endif

# The boards' firmware comes by pip, once, into the user's cache folder; the registry is Debian's docker-registry.
.PHONY: e2e
e2e: venv ## Run the tests with real parts: Zephyr and MCUboot on boards in QEMU, a registry (ARGS="-k revert" runs some).
	$(call debian_package,qemu-system-arm,qemu-system-arm)
	@mkdir -p build/reports
	$(BIN)/pytest tests/e2e -m "not soak" --junitxml=build/reports/e2e.xml $(ARGS)

##@ Longer

.PHONY: soak
soak: venv kubernetes ## Run the random tests at length and print the seed (SEED=7 repeats a run).
	@echo "soak: seed $(SEED) (repeat with: make soak SEED=$(SEED))"
	HYPOTHESIS_PROFILE=soak EDGEWRIGHT_SEED=$(SEED) $(BIN)/pytest tests/unit tests/local tests/cluster -m "soak or hypothesis" --hypothesis-seed=$(SEED) $(ARGS) \
		|| { code=$$?; echo "soak: failed with seed $(SEED) (repeat with: make soak SEED=$(SEED))"; exit $$code; }

.PHONY: bench
bench: build/bench/.stamp kubernetes ## Run every benchmark against its peers and write docs/benchmarks.md (ARGS="flashjob" runs one).
	@$(BENCH)/python bench/peers/build.py
	$(BENCH)/python bench/report.py $(ARGS)

##@ What is made

.PHONY: manifests
manifests: venv ## Write config/crd/bases from the structs in api/, and docs/reference from them and the command line.
	$(BIN)/python -m edgewright.api.manifests config/crd/bases
	$(BIN)/python hack/reference.py docs/reference

.PHONY: kubernetes
kubernetes: venv ## Build the real Kubernetes that the tests run on, once, into the user's cache folder (some 12 minutes).
	@$(BIN)/python hack/kubernetes/build.py

# Packages of one name only: make lock PACKAGE=aiohttp
PACKAGE ?=
LOCK := build/lock/bin/uv pip compile --quiet --generate-hashes --universal --python-version 3.11 \
	--no-emit-index-url --no-header --no-annotate $(if $(PACKAGE),--upgrade-package $(PACKAGE),--upgrade)

.PHONY: lock
lock: build/lock/.stamp ## Refresh the locked requirements to the newest that fit (PACKAGE=name: no other than that one).
	$(LOCK) requirements/lock.in -o requirements/lock.txt
	$(LOCK) pyproject.toml -o requirements/run.txt
	$(LOCK) requirements/dev.in -o requirements/dev.txt
	$(LOCK) requirements/verify.in -o requirements/verify.txt
	$(LOCK) requirements/bench.in -o requirements/bench.txt
	$(LOCK) hack/kubernetes/requirements-go.in -o hack/kubernetes/requirements-go.txt

.PHONY: venv
venv: .venv/.stamp ## Set up .venv with the locked tools and this package in it; nothing happens where that is done.

.venv/.stamp: requirements/dev.txt pyproject.toml
	$(call virtual_environment,.venv)
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

# What suites on real parts need besides, in the same environment; demo and `make test` do without.
.venv/.verify.stamp: .venv/.stamp requirements/verify.txt
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements/verify.txt
	@touch $@

build/bench/.stamp: requirements/bench.txt pyproject.toml
	$(call virtual_environment,build/bench)
	@$(BENCH)/python -m pip install --quiet --require-hashes -r requirements/bench.txt
	@$(BENCH)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

build/lock/.stamp: requirements/lock.txt
	$(call virtual_environment,build/lock)
	@build/lock/bin/python -m pip install --quiet --require-hashes -r requirements/lock.txt
	@touch $@

.PHONY: clean
clean: ## Remove .venv and build/; what was built into the user's cache folder stays.
	rm -rf .venv build

include deploy.mk
