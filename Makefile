# The front door: `make` alone prints what can be done. A target sets up what it needs, once: stamp files in .venv/ and
# build/ remember it, so a second run with nothing changed sets nothing up again. Nothing is written outside .venv/,
# build/ and the user's cache folder, except by `format`, `manifests`, `lock` and `bench`, which write what is in git.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# The first Python that is new enough; `make PYTHON=/path/to/python3.12 …` chooses another. What is looked for so is looked
# for once, where it is first used: the variable then becomes what was found.
PYTHON ?= $(eval PYTHON := $(shell for python in python3.13 python3.12 python3.11 python3; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v $$python; break; }; done))$(PYTHON)

# Handed to pytest: make unit ARGS="-k queue -x"
ARGS ?=
# Suites that `make test` and `make verify` leave out, and say so: make verify SKIP=cluster
SKIP ?=
# How long `make soak` goes on with one seed after the other; 0: each test once.
MINUTES ?= 0
# Whether root lets targets install Debian packages: yes, no, or else somebody at a terminal is asked, and a build machine
# (CI is set, or there is no terminal) means yes: make acceptance EDGEWRIGHT_APT=yes
export EDGEWRIGHT_APT ?=
# Of the long random tests; a printed seed repeats a run: make soak SEED=7
ifndef SEED
SEED := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
endif

BIN := .venv/bin
BENCH := build/bench/bin
# What `make web` builds: part of every wheel, sdist and image.
PAGE := src/edgewright/console/static/index.html
STARTED := $(shell date +%s)

export HYPOTHESIS_STORAGE_DIRECTORY := $(CURDIR)/build/hypothesis
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore
# Images of Python set it. Without what was compiled before, each of hundreds of processes compiles our modules again.
unexport PYTHONDONTWRITEBYTECODE

# A virtual environment in $(1). Debian ships Python without the part that makes one: root gets it where that is
# agreed to (hack/debian_package.sh), others are told how.
define virtual_environment
	@test -n "$(PYTHON)" || { echo "make: Edgewright needs Python 3.11 or newer and found none: install it, or name it with make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
		package="python$$("$(PYTHON)" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"; \
		hack/debian_package.sh "$(1)" "the venv module of $(PYTHON)" "$$package"; }
	@echo "$(1): setting up a virtual environment with $$("$(PYTHON)" --version) ..."
	@"$(PYTHON)" hack/environment.py $(1)
endef

# The program $(1), which Debian has in the package $(2): root gets it where that is agreed to, others are told how.
define debian_package
	@command -v $(1) >/dev/null || hack/debian_package.sh $@ $(1) $(2)
endef

# The tests in tests/$(1), with the report by which skipped and failed ones are found; ARGS="-k lease" runs some.
# A report is named SUITE.xml or SUITE-part.xml.
define pytest_suite
	@mkdir -p build/reports
	$(BIN)/pytest tests/$(1) -m "not soak" --junitxml=build/reports/$@.xml $(ARGS)
endef

##@ Everyday

.PHONY: help
help: ## Print this list.
	@if test -t 1; then bold=$$'\e[1m' cyan=$$'\e[36m' plain=$$'\e[0m'; else bold= cyan= plain=; fi; \
	awk -v bold="$$bold" -v cyan="$$cyan" -v plain="$$plain" 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s%s%s\n", bold, substr($$0, 5), plain } \
		/^[a-z0-9-]+:.*## / { printf "  %s%-15s%s %s\n", cyan, $$1, plain, $$2 }' $(MAKEFILE_LIST)
	@printf '\nRoot is asked before Debian packages are installed; EDGEWRIGHT_APT=yes or =no answers, and so does CI or no terminal: yes.\n'

# `make demo --keep` leaves it running, with the console's page: make takes the word as its own -k, and so do we.
KEEP ?= $(findstring k,$(filter-out --%,$(firstword $(MAKEFLAGS))))
.PHONY: demo
demo: .venv/.demo.stamp ## Roll firmware out to 12 simulated devices on an embedded control plane and show what was proven: under a minute.
	@$(if $(KEEP),$(MAKE) web)
	@$(BIN)/edgewright demo $(if $(KEEP),--keep)

# Both commands are lists of suites, each a target of its own; hack/suites.py runs them, and prints the table at the end.
# A suite on real parts is added with its name in one of the lanes, or in EITHER where it needs no machine to itself (no
# root, no containers) and a lane can take it that is done before the others: the longest first; its minutes in BUDGETS, and its target under "Suites".
# What it needs goes into its target, the programs with `debian_package`.
UNIT := $(if $(COVERAGE),coverage,unit)
# The pages of tests/cluster/test_docs.py and the demo of tests/browser have their devices at the same addresses.
SERVERS_LANE := cluster browser
DEVICES_LANE := flash edge
MACHINE_LANE := acceptance node images
EITHER := conformance boards
LANES := $(SERVERS_LANE) $(DEVICES_LANE) $(MACHINE_LANE) $(EITHER)
NEED_KUBERNETES := cluster conformance edge flash
# These build images, or open the page: it is built before the lanes, so that no two of them build it at once.
NEED_THE_PAGE := images browser acceptance node
BUDGETS := test=6 cluster=10 flash=8 conformance=4 boards=2 acceptance=6 edge=10 browser=5 images=8 node=8
NOT_HERE := $(if $(filter Linux,$(shell uname -s)),,local kubernetes $(LANES))
# What the suites may install: asked for before they run side by side, where nobody sees a question.
DEBIAN_PROGRAMS = $(shell grep '^	' Makefile | grep -o 'debian_package,[^,]*' | cut -d , -f 2 | sort -u)
SUITES = $(BIN)/python hack/suites.py $@ --began $(STARTED) --budgets "$(BUDGETS)" --skip "$(SKIP)" --not-here "$(NOT_HERE)"

.PHONY: test
test: venv ## Run lint and the suites that need nothing but Python, and print how long each took: four to six minutes on two cores.
	@$(SUITES) --lane "$(UNIT)" --lane "lint local"

.PHONY: verify
verify: export COVERAGE := 1
verify: .venv/.verify.stamp ## Run `make test`, with coverage, and every suite on real parts (SKIP="cluster" leaves suites out).
	@EDGEWRIGHT_APT=$$(hack/debian_package.sh --consent $(DEBIAN_PROGRAMS)) && export EDGEWRIGHT_APT && \
	$(SUITES) --first "test kubernetes web" --lane "$(SERVERS_LANE)" --lane "$(DEVICES_LANE)" --lane "$(MACHINE_LANE)" --either "$(EITHER)" \
		--last acceptance-page \
		--needs "$(NEED_KUBERNETES:%=%=kubernetes) $(NEED_THE_PAGE:%=%=kubernetes,web) acceptance-page=test,unit,coverage,cluster,flash,acceptance,edge"

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
	others=; for room in $$rooms; do run $@-$$room tests/unit/$$room >build/reports/$@-$$room.log 2>&1 & others+=" $$!"; done; \
	run $@ tests/unit $$(printf -- '--ignore=tests/unit/%s ' $$rooms) || code=$$?; \
	for each in $$others; do wait $$each || code=$$?; done; \
	for room in $$rooms; do cat build/reports/$@-$$room.log; done; exit $$code
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
ifeq ($(strip $(ARGS)),)
	$(BIN)/pytest $(PLAIN_ACCEPTANCE) -m plain --junitxml=build/reports/$@-acceptance.xml
endif

# What the documents show and nothing but Python is needed for; the other modules import what `make test` does not have.
PLAIN_ACCEPTANCE := $(addprefix tests/acceptance/test_,000_flashjob.py 001_flashjob_list.py acceptance_page.py)

# In two halves, which run side by side where it is called alone; in `make verify` each has its place in a lane.
.PHONY: cluster
cluster: .venv/.verify.stamp kubernetes ## Run the tests on a real Kubernetes, which they start and stop (ARGS="-k lease" runs some).
	$(call debian_package,strace,strace)
	@mkdir -p build/reports
ifneq ($(strip $(ARGS)),)
	$(BIN)/pytest tests/cluster -m "not soak" $(ARGS)
else ifneq ($(EDGEWRIGHT_SUITES),)
	$(BIN)/pytest tests/cluster --ignore=tests/cluster/flash -m "not soak" --junitxml=build/reports/cluster.xml
else
	@echo "side by side: tests/cluster/flash, whose output comes afterwards, and the rest"; code=0; \
	$(BIN)/pytest tests/cluster/flash -m "not soak" --junitxml=build/reports/flash.xml >build/reports/flash.log 2>&1 & other=$$!; \
	$(BIN)/pytest tests/cluster --ignore=tests/cluster/flash -m "not soak" --junitxml=build/reports/cluster.xml || code=$$?; \
	wait $$other || code=$$?; cat build/reports/flash.log; exit $$code
endif

.PHONY: flash
flash: venv kubernetes ## Run the half of `make cluster` that flashes devices: tests/cluster/flash (ARGS="-k takeover" runs some).
	@mkdir -p build/reports
	$(BIN)/pytest tests/cluster/flash -m "not soak" --junitxml=build/reports/flash.xml $(ARGS)

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

# In two halves side by side, for most of it waits. In one of them is whatever has a port at all addresses of this machine:
# that of `make run` (8080, 8081), and that of an operator and of a console as Pods (8443).
FIXED_PORTS := $(addprefix tests/acceptance/test_,000_flashjob.py 001_flashjob_list.py 003_chart.py 003_console_deployment.py)

# One line for each program that a step of these documents runs, such as: $(call debian_package,podman,podman)
.PHONY: acceptance
acceptance: .venv/.verify.stamp kubernetes ## Follow the documents of acceptance step by step, with their own commands (ARGS="-k 003" runs some).
	$(call debian_package,podman,podman runc containernetworking-plugins netavark aardvark-dns catatonit busybox-static)
	$(call debian_package,buildah,buildah)
	$(call debian_package,mmdebstrap,mmdebstrap)
	$(call debian_package,docker-registry,docker-registry)
	$(call debian_package,git,git)
	$(call debian_package,chromium,chromium fonts-dejavu-core)
ifneq ($(strip $(ARGS)),)
	$(call pytest_suite,acceptance)
else
	@mkdir -p build/reports; echo "side by side: $(FIXED_PORTS), whose output comes afterwards, and the rest"; code=0; \
	$(BIN)/pytest $(FIXED_PORTS) -m "not soak" --junitxml=build/reports/$@-ports.xml >build/reports/$@-ports.log 2>&1 & other=$$!; \
	$(BIN)/pytest tests/acceptance $(FIXED_PORTS:%=--ignore=%) -m "not soak" --junitxml=build/reports/$@.xml || code=$$?; \
	wait $$other || code=$$?; cat build/reports/$@-ports.log; exit $$code
endif

.PHONY: acceptance-page
acceptance-page: venv ## Check that each line of docs/acceptance.md names a test that passed (at the end of `make verify`).
	$(BIN)/python -m tests.acceptance.page build/reports

.PHONY: edge
edge: .venv/.verify.stamp kubernetes ## Run the tests with edge devices and containers: machines of their own, with podman (ARGS="-k fault" runs some).
	$(call debian_package,podman,podman runc containernetworking-plugins netavark aardvark-dns catatonit busybox-static)
	$(call debian_package,docker-registry,docker-registry)
	$(call debian_package,curl,curl)
	$(call debian_package,buildah,buildah)
	$(call debian_package,nft,nftables)
	$(call debian_package,ip,iproute2)
	$(call debian_package,iptables,iptables)
	$(call debian_package,prometheus,prometheus)
	$(call debian_package,openssl,openssl)
	$(call debian_package,ostree,ostree)
	$(call pytest_suite,edge)

.PHONY: browser
browser: .venv/.verify.stamp web kubernetes ## Run the tests that use the console as people do, with a real browser (ARGS="-k login" runs some).
	$(call debian_package,chromium,chromium fonts-dejavu-core)
	$(call pytest_suite,browser)

# The cluster lives in namespaces of its own: nothing of the machine is changed, and one kill ends all of it.
.PHONY: node
node: .venv/.verify.stamp kubernetes ## Run the tests on a real node: kubelet, containerd, kube-proxy, registry, devices on a LAN (ARGS="-k flash" runs some).
ifeq ($(shell id -u),0)
	$(call debian_package,containerd,containerd)
	$(call debian_package,runc,runc)
	$(call debian_package,/usr/lib/cni/bridge,containernetworking-plugins)
	$(call debian_package,nft,nftables)
	$(call debian_package,ip,iproute2)
	$(call debian_package,iptables,iptables)
	$(call debian_package,busybox,busybox-static)
	$(call debian_package,buildah,buildah)
	$(call debian_package,mmdebstrap,mmdebstrap)
	$(call debian_package,docker-registry,docker-registry)
	$(call debian_package,skopeo,skopeo)
endif
	@mkdir -p build/reports
	$(BIN)/python -m tests.node $(ARGS)

.PHONY: images
images: .venv/.verify.stamp kubernetes ## Build the images, the chart and a release, and install from them (ARGS="-k chart" runs some).
	$(call debian_package,buildah,buildah)
	$(call debian_package,mmdebstrap,mmdebstrap)
	$(call debian_package,qemu-aarch64-static,qemu-user-static)
	$(call debian_package,promtool,prometheus)
	$(call pytest_suite,images)

##@ Longer

# Where a test repeats something, `make test` and `make verify` do so a few times and with a fixed seed.
SUITE ?= unit local cluster
# What the controllers of the documents must survive is tested there too.
KUBERNETES ?=
SOAK_acceptance := tests/cluster/edge tests/cluster/flash/test_fault_matrix.py

.PHONY: soak
soak: .venv/.verify.stamp kubernetes ## Run what repeats or is random at length, and print the seed (SUITE=cluster MINUTES=60; SEED=7 repeats a run; KUBERNETES=1.34: on that).
	@$(if $(KUBERNETES),$(BIN)/python hack/kubernetes/build.py --release $(KUBERNETES))
	@seed=$(SEED); runs=0; until=$$(($$(date +%s) + $(MINUTES) * 60)); \
	while :; do \
		again="make soak SUITE=\"$(SUITE)\" SEED=$$seed"; echo "soak: $(SUITE), seed $$seed (repeat with: $$again)"; \
		TEST_TIMEOUT=7200 HYPOTHESIS_PROFILE=soak EDGEWRIGHT_KUBERNETES=$(KUBERNETES) EDGEWRIGHT_SEED=$$seed EDGEWRIGHT_MINUTES=$(MINUTES) $(BIN)/pytest $(foreach each,$(SUITE),tests/$(each) $(SOAK_$(each))) -m "soak or hypothesis or repeated" \
			--hypothesis-seed=$$seed $(ARGS) || { code=$$?; echo "soak: FAILED with seed $$seed (repeat with: $$again)"; exit $$code; }; \
		runs=$$((runs + 1)); test $$(date +%s) -lt $$until || break; seed=$$((seed + 1)); \
	done; \
	echo "soak: $(SUITE) passed, runs: $$runs, seeds: $(SEED) to $$seed"

.PHONY: bench
bench: build/bench/.stamp kubernetes web ## Run every benchmark against its peers and write docs/benchmarks.md (ARGS="flashjob" runs one).
	$(call debian_package,chromium,chromium fonts-dejavu-core)
	@$(BENCH)/python bench/peers/build.py
	$(BENCH)/python bench/report.py $(ARGS)

##@ What is made

.PHONY: manifests
manifests: venv ## Write config/crd/bases from the structs in api/, and docs/reference from them and the command line.
	$(BIN)/python -m edgewright.api.manifests config/crd/bases
	$(BIN)/python hack/reference.py docs/reference

.PHONY: web
web: $(PAGE) ## Build the console's page from web/ into the package (Node comes from PyPI where there is none).

# Not newer than the environment, which is set up again for other reasons: it only runs what builds the page.
$(PAGE): hack/web.py $(shell find web -type f -not -path 'web/node_modules/*' 2>/dev/null) | .venv/.demo.stamp
	@$(BIN)/python hack/web.py

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
	$(LOCK) requirements/image.in -o requirements/image.txt
	$(LOCK) requirements/charts.in -o requirements/charts.txt
	$(LOCK) requirements/web.in -o requirements/web.txt
	$(LOCK) hack/kubernetes/requirements-go.in -o hack/kubernetes/requirements-go.txt

.PHONY: venv
venv: .venv/.stamp ## Set up .venv with the locked tools and this package in it; nothing happens where that is done.

# One environment in three steps, each on top of the one before: what the demo runs, the tools of lint and tests, and what
# only suites on real parts need. Each is taken as soon as something needs it.
.venv/.demo.stamp: requirements/demo.txt pyproject.toml
	$(call virtual_environment,.venv)
	@# Our modules are compiled while packages are fetched: Pods run as users who could not keep what they compile.
	@$(BIN)/python -m compileall -q -j 2 src & compiling=$$!; \
	$(BIN)/python hack/install.py requirements/demo.txt && wait $$compiling
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
