# Installing Edgewright in a cluster, with the targets that users of kubebuilder know. KUBECONFIG counts as for kubectl.
# Several targets in one call run in their order: make docker-build docker-push IMG=registry.example/edgewright:0.1.0

# Of what is built and installed: said here and nowhere else.
VERSION ?= $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' src/edgewright/__init__.py)
IMAGE_TAG_BASE ?= edgewright/edgewright
IMG ?= $(IMAGE_TAG_BASE):$(VERSION)
# Some capabilities in place of all: make deploy CONTROLLERS=flashjob
CONTROLLERS ?=
# Where `make run` serves metrics, and health.
METRICS_PORT ?= 8080
HEALTH_PORT ?= 8081
# What the image of the operator is built on, and for which Python and machine; the base must have that Python.
BASE_IMAGE ?= docker.io/library/python:3.11-slim-bookworm
BASE_PYTHON ?= 3.11
ARCH ?= $(shell uname -m)
# make undeploy FORCE=yes deletes custom resources too.
FORCE ?=

# kubectl of the PATH, else the one that `make kubernetes` has built.
KUBECTL ?= $(shell command -v kubectl || find "$${XDG_CACHE_HOME:-$$HOME/.cache}/edgewright/kubernetes" -name kubectl -perm -u+x 2>/dev/null | sort | tail -1)
# Which of the three works: a client without its daemon does not.
CONTAINER_TOOL ?= $(shell for tool in docker podman buildah; do \
	command -v $$tool >/dev/null && $$tool info >/dev/null 2>&1 && { echo $$tool; break; }; done)

APPLY = "$(KUBECTL)" apply --server-side --force-conflicts -f -
OVERLAY = "$(PYTHON)" hack/overlay.py --controllers "$(CONTROLLERS)"
RENDER = "$(KUBECTL)" kustomize

define need_kubectl
	@test -n "$(KUBECTL)" || { echo "make $@: kubectl is needed: install it, or build one with make kubernetes" >&2; exit 1; }
endef

# Refuses where custom resources are left in the cluster that the manifests in $(1) would take with them.
define refuse_left_over
	@if test "$(FORCE)" != yes; then $(RENDER) $(1) | "$(PYTHON)" hack/custom_resources.py "$(KUBECTL)"; fi
endef

# Deletes the custom resources first, while the operator that cleans up behind them still runs.
define delete_left_over
	@if test "$(FORCE)" = yes; then \
		$(RENDER) $(1) | "$(PYTHON)" hack/custom_resources.py --delete "$(KUBECTL)"; \
	fi
endef

##@ In a cluster

.PHONY: install
install: bin/kustomize ## Install the custom resource definitions in the cluster of your kubeconfig (CONTROLLERS=flashjob: some).
	$(call need_kubectl)
	@$(OVERLAY) config/crd build/config/crd
	@$(RENDER) build/config/crd | $(APPLY)
	@$(RENDER) build/config/crd | "$(PYTHON)" hack/custom_resources.py --served "$(KUBECTL)"

.PHONY: uninstall
uninstall: ## Remove the custom resource definitions; refuses while there are objects of them (FORCE=yes deletes those).
	$(call need_kubectl)
	@$(OVERLAY) config/crd build/config/crd
	$(call refuse_left_over,build/config/crd)
	$(call delete_left_over,build/config/crd)
	@$(RENDER) build/config/crd | "$(KUBECTL)" delete --ignore-not-found -f -

.PHONY: run
run: venv ## Run the operator here, against the cluster of your kubeconfig, with metrics on 8080 and health on 8081.
	@$(BIN)/edgewright run --metrics-port $(METRICS_PORT) --health-port $(HEALTH_PORT) \
		$(if $(CONTROLLERS),--controllers "$(CONTROLLERS)") $(ARGS)

.PHONY: deploy
deploy: ## Install everything in the cluster: definitions, rights and the operator of IMG (CONTROLLERS=flashjob: some).
	$(call need_kubectl)
	@$(OVERLAY) --image "$(IMG)" --arguments='$(ARGS)' config/default build/config/default
	@$(RENDER) build/config/default | $(APPLY)

.PHONY: undeploy
undeploy: ## Remove what deploy created; refuses while there are custom resources (FORCE=yes deletes those too).
	$(call need_kubectl)
	@$(OVERLAY) config/default build/config/default
	$(call refuse_left_over,build/config/default)
	$(call delete_left_over,build/config/default)
	@$(RENDER) build/config/default | "$(KUBECTL)" delete --ignore-not-found -f -

.PHONY: build-installer
build-installer: ## Write dist/install.yaml: everything that deploy installs, in one file, with the operator of IMG.
	$(call need_kubectl)
	@mkdir -p dist
	@$(OVERLAY) --image "$(IMG)" --arguments='$(ARGS)' config/default build/config/default
	@{ echo "# Edgewright with the image $(IMG). Made by: make build-installer IMG=$(IMG)"; \
		$(RENDER) build/config/default; } >build/install.yaml
	@mv build/install.yaml dist/install.yaml
	@echo dist/install.yaml

# What is installed into the image is chosen and checked here, by pip: the builder needs no network and runs nothing.
.PHONY: docker-build
docker-build: venv ## Build the image IMG with docker, podman or buildah, whichever works.
	@test -n "$(CONTAINER_TOOL)" || { echo "make $@: none of docker, podman and buildah works here: start one, or name it with CONTAINER_TOOL=…" >&2; exit 1; }
	@rm -rf build/image && mkdir -p build/image/wheels
	@$(BIN)/python -m pip install --quiet --require-hashes --no-deps --no-compile --only-binary :all: --implementation cp \
		--python-version $(BASE_PYTHON) --platform manylinux2014_$(ARCH) --platform manylinux_2_28_$(ARCH) \
		--target build/image/packages -r requirements/run.txt
	@$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/image/wheels .
	@$(BIN)/python -m pip install --quiet --no-deps --no-compile --target build/image/packages build/image/wheels/*.whl
	@rm -rf build/image/wheels build/image/packages/bin
	$(CONTAINER_TOOL) build --build-arg BASE_IMAGE=$(BASE_IMAGE) --tag $(IMG) --file images/Containerfile build/image

.PHONY: docker-push
docker-push: ## Push the image IMG to its registry.
	@test -n "$(CONTAINER_TOOL)" || { echo "make $@: none of docker, podman and buildah works here: start one, or name it with CONTAINER_TOOL=…" >&2; exit 1; }
	$(CONTAINER_TOOL) push $(IMG)

# What config/ has of each capability comes from api/capabilities.py, as the definitions come from the structs.
manifests: config-manifests
.PHONY: config-manifests
config-manifests: venv ## Write what deploy applies, a part of `make manifests`.
	@$(BIN)/python hack/config.py config

bin/kustomize:
	@mkdir -p bin
	@printf '%s\n' '#!/bin/sh' '# kustomize for this project: that of kubectl. bin/kustomize build config/samples' \
		'test "$$1" = build && shift' 'exec "$(KUBECTL)" kustomize "$$@"' >$@
	@chmod +x $@
