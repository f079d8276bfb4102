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
# Suites that `make test` and `make verify` leave out, and say so: make verify SKIP=cluster
SKIP ?=
# How long `make soak` goes on with one seed after the other; 0: each test once.
MINUTES ?= 0
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
			echo "$@: installing $(2)"; install="apt-get install --yes --quiet=2 --no-install-recommends -o DPkg::Lock::Timeout=600"; \
			DEBIAN_FRONTEND=noninteractive $$install $(2) >/dev/null \
			|| { apt-get update --quiet=2 && DEBIAN_FRONTEND=noninteractive $$install $(2) >/dev/null; }; \
		else \
			echo "make $@: $(1) is needed: install it (on Debian and Ubuntu: apt-get install $(2))" >&2; exit 1; \
		fi; }
endef

# The tests in tests/$(1), with the report by which skipped ones are found; ARGS="-k lease" runs some.
define pytest_suite
	@mkdir -p build/reports
	$(BIN)/pytest tests/$(1) -m "not soak" --junitxml=build/reports/$(1).xml $(ARGS)
endef

##@ Everyday

.PHONY: help
help: ## Print this list.
	@if test -t 1; then bold=$$'\e[1m' cyan=$$'\e[36m' plain=$$'\e[0m'; else bold= cyan= plain=; fi; \
	awk -v bold="$$bold" -v cyan="$$cyan" -v plain="$$plain" 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s%s%s\n", bold, substr($$0, 5), plain } \
		/^[a-z0-9-]+:.*## / { printf "  %s%-15s%s %s\n", cyan, $$1, plain, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: .venv/.demo.stamp ## Flash 12 simulated devices on an embedded control plane and show what was proven: under a minute.
	@$(BIN)/edgewright demo

# Both commands are lists of suites, each a target of its own; hack/suites.py runs them, and prints the table at the end.
# A suite on real parts is added with its name in one of the lanes, its minutes in BUDGETS, and its target under "Suites".
# What it needs goes into its target, the programs with `debian_package`.
UNIT := $(if $(COVERAGE),coverage,unit)
SERVERS_LANE := cluster conformance
MACHINE_LANE := boards acceptance edge browser
NEED_KUBERNETES := $(SERVERS_LANE) acceptance edge
BUDGETS := test=6 cluster=10 conformance=4 boards=2 acceptance=6 edge=5 browser=5
NOT_HERE := $(if $(filter Linux,$(shell uname -s)),,local kubernetes $(SERVERS_LANE) $(MACHINE_LANE))
SUITES = $(BIN)/python hack/suites.py $@ --began $(STARTED) --budgets "$(BUDGETS)" --skip "$(SKIP)" --not-here "$(NOT_HERE)"

.PHONY: test
test: venv ## Run lint and the suites that need nothing but Python, and print how long each took: some four minutes.
	@$(SUITES) --lane "$(UNIT)" --lane "lint local"

.PHONY: verify
verify: export COVERAGE := 1
verify: .venv/.verify.stamp ## Run `make test`, with coverage, and every suite on real parts (SKIP="cluster" leaves suites out).
	@$(SUITES) --first "test kubernetes" --lane "$(SERVERS_LANE)" --lane "$(MACHINE_LANE)" \
		--needs "$(NEED_KUBERNETES:%=%=kubernetes)"

.PHONY: format
format: venv ## Format the code and fix what ruff can fix.
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

##@ Suites

.PHONY: lint
lint: venv ## Check style, formatting, types and the direction of imports.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --cache-dir build/import-linter

# Runs tests/unit in parts side by side with the command $(1): the folders that take longest, and the rest.
define unit_suite
	@mkdir -p build/reports; code=0; rooms="local controllers cli devices"; \
	echo "side by side: the tests of $$rooms, whose output comes afterwards, and the rest"; \
	run() { name=$$1; shift; $(1) "$$@" -m "not soak" --junitxml=build/reports/$$name.xml; }; \
	others=; for room in $$rooms; do run unit-$$room tests/unit/$$room >build/reports/unit-$$room.log 2>&1 & others+=" $$!"; done; \
	run unit tests/unit $$(printf -- '--ignore=tests/unit/%s ' $$rooms) || code=$$?; \
	for each in $$others; do wait $$each || code=$$?; done; \
	for room in $$rooms; do cat build/reports/unit-$$room.log; done; exit $$code
endef

.PHONY: unit
unit: venv ## Run the tests that need no cluster (ARGS="-k queue" runs some).
ifeq ($(strip $(ARGS)),)
	$(call unit_suite,$(BIN)/pytest)
else
	$(BIN)/pytest tests/unit -m "not soak" $(ARGS)
endif

# How much of the code must be covered is said in pyproject.toml (tool.coverage.report). Tracing doubles the time.
.PHONY: coverage
coverage: venv ## Run the same tests traced, and hold the code above 95 % coverage.
	@mkdir -p build/coverage; rm -f build/coverage/data*
	$(call unit_suite,$(BIN)/coverage run --parallel-mode -m pytest)
	@$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

.PHONY: local
local: venv ## Run the tests of `edgewright up` as a process: it is killed, filled, asked wrongly (ARGS="-k kill" runs some).
	$(call pytest_suite,local)

.PHONY: cluster
cluster: venv kubernetes ## Run the tests on a real Kubernetes, which they start and stop (ARGS="-k lease" runs some).
	$(call debian_package,strace,strace)
	@mkdir -p build/reports
ifeq ($(strip $(ARGS)),)
	@code=0; flash() { $(BIN)/pytest tests/cluster/flash -m "not soak" --junitxml=build/reports/flash.xml >build/reports/flash.log 2>&1; }; \
	echo "two halves, whose second is tests/cluster/flash: side by side, but one after the other where another lane runs too"; \
	if test -z "$${EDGEWRIGHT_SUITES:-}"; then flash & other=$$!; fi; \
	$(BIN)/pytest tests/cluster --ignore=tests/cluster/flash -m "not soak" --junitxml=build/reports/cluster.xml || code=$$?; \
	if test -n "$${EDGEWRIGHT_SUITES:-}"; then flash || code=$$?; else wait $$other || code=$$?; fi; \
	cat build/reports/flash.log; exit $$code
else
	$(BIN)/pytest tests/cluster -m "not soak" $(ARGS)
endif

# NAME="Watchers" runs the tests that have this in their name.
NAME ?=

.PHONY: conformance
conformance: venv kubernetes ## Run Kubernetes' own conformance tests on `edgewright up` (NAME="Watchers" runs some).
	@$(BIN)/python hack/kubernetes/build.py e2e.test
	$(BIN)/python -m tests.conformance $(if $(NAME),"$(NAME)")

# The boards' firmware comes by pip, once, into the user's cache folder; the registry is Debian's docker-registry.
.PHONY: boards
boards: venv ## Run the tests with boards: Zephyr and MCUboot in QEMU, and a registry (ARGS="-k revert" runs some).
	$(call debian_package,qemu-system-arm,qemu-system-arm)
	$(call debian_package,docker-registry,docker-registry)
	$(call pytest_suite,e2e)

.PHONY: e2e
e2e: boards ## The same as `make boards`.

# One line for each program that a step of these documents runs, such as: $(call debian_package,podman,podman)
.PHONY: acceptance
acceptance: .venv/.verify.stamp kubernetes ## Follow the documents of acceptance step by step, with their own commands (ARGS="-k 003" runs some).
	$(call debian_package,podman,podman runc containernetworking-plugins netavark aardvark-dns catatonit busybox-static)
	$(call debian_package,buildah,buildah)
	$(call debian_package,mmdebstrap,mmdebstrap)
	$(call debian_package,docker-registry,docker-registry)
	$(call debian_package,git,git)
	$(call debian_package,chromium,chromium fonts-dejavu-core)
	$(call pytest_suite,acceptance)

.PHONY: edge
edge: .venv/.verify.stamp kubernetes ## Run the tests with edge devices: agents in machines of their own, with podman (ARGS="-k fault" runs some).
	$(call debian_package,podman,podman runc containernetworking-plugins netavark aardvark-dns catatonit busybox-static)
	$(call debian_package,buildah,buildah)
	$(call debian_package,nft,nftables)
	$(call debian_package,ip,iproute2)
	$(call debian_package,iptables,iptables)
	$(call pytest_suite,edge)

.PHONY: browser
browser: .venv/.verify.stamp ## Run the tests that use the console as people do, with a real browser (ARGS="-k login" runs some).
	$(call debian_package,chromium,chromium fonts-dejavu-core)
	$(call pytest_suite,browser)

##@ Longer

# Where a test repeats something, `make test` and `make verify` do so a few times and with a fixed seed.
SUITE ?= unit local cluster

.PHONY: soak
soak: venv kubernetes ## Run what repeats or is random at length, and print the seed (SUITE=cluster MINUTES=60; SEED=7 repeats a run).
	@seed=$(SEED); runs=0; until=$$(($$(date +%s) + $(MINUTES) * 60)); \
	while :; do \
		again="make soak SUITE=\"$(SUITE)\" SEED=$$seed"; echo "soak: $(SUITE), seed $$seed (repeat with: $$again)"; \
		TEST_TIMEOUT=7200 HYPOTHESIS_PROFILE=soak EDGEWRIGHT_SEED=$$seed $(BIN)/pytest $(SUITE:%=tests/%) -m "soak or hypothesis or repeated" \
			--hypothesis-seed=$$seed $(ARGS) || { code=$$?; echo "soak: FAILED with seed $$seed (repeat with: $$again)"; exit $$code; }; \
		runs=$$((runs + 1)); test $$(date +%s) -lt $$until || break; seed=$$((seed + 1)); \
	done; \
	echo "soak: $(SUITE) passed, runs: $$runs, seeds: $(SEED) to $$seed"

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
	$(LOCK) requirements/demo.in -o requirements/demo.txt
	$(LOCK) requirements/dev.in -o requirements/dev.txt
	$(LOCK) requirements/verify.in -o requirements/verify.txt
	$(LOCK) requirements/bench.in -o requirements/bench.txt
	$(LOCK) hack/kubernetes/requirements-go.in -o hack/kubernetes/requirements-go.txt

.PHONY: venv
venv: .venv/.stamp ## Set up .venv with the locked tools and this package in it; nothing happens where that is done.

# One environment in three steps, each on top of the one before: what the demo runs, the tools of lint and tests, and what
# only suites on real parts need. Each is taken as soon as something needs it.
.venv/.demo.stamp: requirements/demo.txt pyproject.toml
	$(call virtual_environment,.venv)
	@$(BIN)/python hack/install.py requirements/demo.txt
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

.venv/.stamp: .venv/.demo.stamp requirements/dev.txt
	@echo ".venv: adding the tools that lint and tests need ..."
	@$(BIN)/python hack/install.py requirements/dev.txt
	@touch $@

.venv/.verify.stamp: .venv/.stamp requirements/verify.txt
	@echo ".venv: adding what suites on real parts need ..."
	@$(BIN)/python hack/install.py requirements/verify.txt
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
