# Installing Edgewright in a cluster, with the targets that users of kubebuilder know. KUBECONFIG counts as for kubectl.
# Several targets in one call run in their order: make docker-build docker-push IMG=registry.example/edgewright:0.1.0

# Of what is built and installed: said here and nowhere else.
VERSION ?= $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' src/edgewright/__init__.py)
IMAGE_TAG_BASE ?= edgewright/edgewright
IMG ?= $(IMAGE_TAG_BASE):$(VERSION)
CHARTS_IMG ?= $(IMAGE_TAG_BASE)-charts:$(VERSION)
# Some capabilities in place of all: make deploy CONTROLLERS=flashjob
CONTROLLERS ?=
# Where `make run` serves metrics, and health.
METRICS_PORT ?= 8080
HEALTH_PORT ?= 8081
# What the image of the operator is built on, and for which Python and machine; the base must have that Python.
BASE_IMAGE ?= docker.io/library/python:3.11-slim-bookworm
BASE_PYTHON ?= 3.11
ARCH ?= $(shell uname -m)
# What is deployed: config/default for the whole cluster, config/namespaced for one namespace. How many: REPLICAS=1.
CONFIG ?= config/default
# The file that build-installer writes.
INSTALLER ?= dist/install.yaml
# The console in a file of its own: not everybody wants one, and it needs a certificate.
CONSOLE_INSTALLER ?= $(dir $(INSTALLER))console.yaml
REPLICAS ?=
# make undeploy FORCE=yes deletes custom resources too.
FORCE ?=

# kubectl of the PATH, else the one that `make kubernetes` has built.
KUBECTL ?= $(eval KUBECTL := $(shell command -v kubectl || find "$${XDG_CACHE_HOME:-$$HOME/.cache}/edgewright/kubernetes" -name kubectl -perm -u+x 2>/dev/null | sort | tail -1))$(KUBECTL)
# Which of the three works: a client without its daemon does not.
CONTAINER_TOOL ?= $(eval CONTAINER_TOOL := $(shell for tool in docker podman buildah; do \
	command -v $$tool >/dev/null && $$tool info >/dev/null 2>&1 && { echo $$tool; break; }; done))$(CONTAINER_TOOL)

APPLY = "$(KUBECTL)" apply --server-side --force-conflicts -f -
OVERLAY = "$(PYTHON)" hack/overlay.py --controllers "$(CONTROLLERS)" $(if $(REPLICAS),--replicas $(REPLICAS))
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
	@$(OVERLAY) --image "$(IMG)" --arguments='$(ARGS)' $(CONFIG) build/config/default
	@$(RENDER) build/config/default | $(APPLY)

.PHONY: undeploy
undeploy: ## Remove what deploy created; refuses while there are custom resources (FORCE=yes deletes those too).
	$(call need_kubectl)
	@$(OVERLAY) $(CONFIG) build/config/default
	$(call refuse_left_over,build/config/default)
	$(call delete_left_over,build/config/default)
	@# The operator first, and its Pods: a namespace that finds Pods in it looks again after half of their time to end.
	@"$(KUBECTL)" delete deployments --all --namespace edgewright-system --cascade=foreground
	@$(RENDER) build/config/default | "$(KUBECTL)" delete --ignore-not-found -f -

.PHONY: build-installer
build-installer: ## Write dist/install.yaml: everything that deploy installs, with the operator of IMG; and dist/console.yaml.
	$(call need_kubectl)
	@mkdir -p $(dir $(INSTALLER))
	@$(OVERLAY) --image "$(IMG)" --arguments='$(ARGS)' $(CONFIG) build/config/default
	@{ echo "# Edgewright with the image $(IMG). Made by: make build-installer IMG=$(IMG)"; \
		$(RENDER) build/config/default; } >build/install.yaml
	@mv build/install.yaml $(INSTALLER)
	@"$(PYTHON)" hack/overlay.py --image "$(IMG)" config/console build/config/console
	@{ echo "# The console of Edgewright with the image $(IMG). Made by: make build-installer IMG=$(IMG)"; \
		$(RENDER) build/config/console; } >build/console.yaml
	@mv build/console.yaml $(CONSOLE_INSTALLER)
	@echo $(INSTALLER) $(CONSOLE_INSTALLER)

# What is installed into the images is chosen and checked here, by pip: the builder needs no network and runs nothing.
define need_container_tool
	@test -n "$(CONTAINER_TOOL)" || { echo "make $@: none of docker, podman and buildah works here: start one, or name it with CONTAINER_TOOL=…" >&2; exit 1; }
endef
BUILD = $(CONTAINER_TOOL) build $(if $(filter $(shell uname -m),$(ARCH)),,--platform linux/$(if $(filter aarch64,$(ARCH)),arm64,amd64))
PACKAGES = $(BIN)/python -m hack.image_packages --machine $(ARCH) --python $(BASE_PYTHON)

.PHONY: docker-build
docker-build: venv web ## Build the image IMG with docker, podman or buildah, whichever works (ARCH=aarch64: for that machine).
	$(need_container_tool)
	@$(PACKAGES) --requirements requirements/image.txt --project . build/image/packages
	$(BUILD) --build-arg BASE_IMAGE=$(BASE_IMAGE) --tag $(IMG) --file images/Containerfile build/image

.PHONY: docker-build-charts
docker-build-charts: venv ## Build the image CHARTS_IMG: the operator of IMG, which must be there, and Helm as a library.
	$(need_container_tool)
	@$(PACKAGES) --requirements requirements/charts.txt build/charts-image/packages
	$(BUILD) --build-arg OPERATOR_IMAGE=$(IMG) --tag $(CHARTS_IMG) --file images/charts.Containerfile build/charts-image

build/base/$(ARCH)/base.tar: hack/base_image.py
	@"$(PYTHON)" -m hack.base_image $@ --machine $(ARCH)

.PHONY: base-image
base-image: build/base/$(ARCH)/base.tar ## Build a small base for docker-build from Debian's packages, to be named as BASE_IMAGE=localhost/edgewright-base.
	$(need_container_tool)
	$(BUILD) --tag localhost/edgewright-base --file images/base.Containerfile build/base/$(ARCH)

.PHONY: docker-push
docker-push: ## Push the image IMG to its registry.
	$(need_container_tool)
	$(CONTAINER_TOOL) push $(IMG)

# For which machines a release has images and wheels, and where it is written.
RELEASE_ARCHES ?= x86_64 aarch64
WHEEL_ARCHES ?= x86_64 aarch64
RELEASE ?= build/release
# A base is made of the newest packages; FRESH=no takes one that was made before.
FRESH ?= yes
RELEASED = $(RELEASE)/edgewright-$(VERSION)
SAVE_podman = podman save --quiet --format oci-archive --output $(2) $(1)
SAVE_buildah = buildah push --quiet $(1) oci-archive:$(2)
SAVE_docker = docker save --output $(2) $(1)
STEP = $(BIN)/python -m hack.release

.PHONY: release
release: venv web ## Make a release in build/release: packages, images, install.yaml by digest, chart, checksums, an offline bundle.
	$(call need_kubectl)
	$(need_container_tool)
	@rm -rf $(RELEASE) $(if $(filter yes,$(FRESH)),build/base/*/base.tar) && mkdir -p $(RELEASED)/images
	@$(BIN)/python -m hatchling build -t wheel -t sdist -d $(RELEASED) >/dev/null
	@$(STEP) wheels $(RELEASED)/wheels --requirements requirements/demo.txt requirements/image.txt \
		--machines $(WHEEL_ARCHES) --python $(BASE_PYTHON)
	@$(foreach arch,$(RELEASE_ARCHES),$(MAKE) base-image docker-build docker-build-charts ARCH=$(arch) \
		BASE_IMAGE=localhost/edgewright-base IMG=localhost/edgewright:$(arch) CHARTS_IMG=localhost/edgewright-charts:$(arch) && \
		$(call SAVE_$(CONTAINER_TOOL),localhost/edgewright:$(arch),$(RELEASE)/edgewright-$(arch).tar) && \
		$(call SAVE_$(CONTAINER_TOOL),localhost/edgewright-charts:$(arch),$(RELEASE)/charts-$(arch).tar) &&) true
	@$(STEP) join $(RELEASE_ARCHES:%=$(RELEASE)/edgewright-%.tar) --file $(RELEASED)/images/edgewright.tar --tag $(VERSION) \
		>$(RELEASE)/digest
	@$(STEP) join $(RELEASE_ARCHES:%=$(RELEASE)/charts-%.tar) --file $(RELEASED)/images/edgewright-charts.tar --tag $(VERSION) >/dev/null
	@$(MAKE) build-installer IMG=$(IMAGE_TAG_BASE)@$$(cat $(RELEASE)/digest) INSTALLER=$(RELEASED)/install.yaml
	@$(STEP) chart charts/edgewright $(RELEASED)/edgewright-chart-$(VERSION).tgz
	@$(STEP) finish $(RELEASED) $(RELEASE)/edgewright-$(VERSION)-offline.tar
	@rm -f $(RELEASE_ARCHES:%=$(RELEASE)/edgewright-%.tar) $(RELEASE_ARCHES:%=$(RELEASE)/charts-%.tar)
	@echo $(RELEASED); echo $(RELEASE)/edgewright-$(VERSION)-offline.tar

# What config/ has of each capability comes from api/capabilities.py, as the definitions come from the structs.
manifests: config-manifests
.PHONY: config-manifests
config-manifests: venv ## Write what deploy applies, and the chart from it, a part of `make manifests`.
	@$(BIN)/python hack/config.py config
	@$(BIN)/python -m hack.chart charts/edgewright

bin/kustomize:
	@mkdir -p bin
	@printf '%s\n' '#!/bin/sh' '# kustomize for this project: that of kubectl. bin/kustomize build config/samples' \
		'test "$$1" = build && shift' 'exec "$(KUBECTL)" kustomize "$$@"' >$@
	@chmod +x $@
