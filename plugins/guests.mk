# Builds every guest once in each form (`make guests`), and the samples that `make run` puts in
# force (`make samples`). Included by the root Makefile; stands alone too: `make -f plugins/guests.mk guests`.
#
# Two calls of cargo, one for each form: cargo knows what is up to date, so both cost little the second
# time. An artifact is copied only when its bytes differ: the host takes a changed file for news.

guest_samples := late-flights tenant-lister
# Only measuring needs these, as components: they take their time to build.
guest_benches := bulky
# Only tests need these; their packages are named guest-…, their artifacts not.
guest_tests   := $(filter-out $(guest_benches),$(notdir $(patsubst %/Cargo.toml,%,$(wildcard tests/guests/*/Cargo.toml))))

guest_packages = $(addprefix -p ,$(guest_samples) $(addprefix guest-,$(guest_tests)))
guest_target   = $(shell cargo metadata --no-deps --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
guest_library  = $(if $(filter Darwin,$(shell uname -s)),.dylib,.so)
guest_wasm    := wasm32-wasip2
guest_copy    := copy() { cmp -s "$$1" "$$2" || { cp "$$1" "$$2.new" && mv "$$2.new" "$$2"; }; }

.PHONY: guests bench-guests samples guest-target

guests: guest-target
	cargo build --locked --profile guest $(guest_packages)
	cargo build --locked --profile guest $(guest_packages) --target $(guest_wasm)
	@target="$(guest_target)"; mkdir -p "$$target/guests"; \
	$(guest_copy); \
	for package in $(guest_samples) $(addprefix guest-,$(guest_tests)); do \
		name=$${package#guest-}; file=$$(echo "$$package" | tr - _); \
		copy "$$target/guest/lib$$file$(guest_library)" "$$target/guests/$$name.so" && \
		copy "$$target/$(guest_wasm)/guest/$$file.wasm" "$$target/guests/$$name.wasm" || exit 1; \
	done

bench-guests: guests
	cargo build --locked --profile guest $(addprefix -p guest-,$(guest_benches)) --target $(guest_wasm)
	@target="$(guest_target)"; $(guest_copy); \
	for name in $(guest_benches); do \
		file=$$(echo "guest-$$name" | tr - _); \
		copy "$$target/$(guest_wasm)/guest/$$file.wasm" "$$target/guests/$$name.wasm" || exit 1; \
	done

# One of each form, into the drop folder: the filter as a component, the lister as a native library. Only
# these two are built: who runs weir needs no guest of the tests.
samples: guest-target
	cargo build --locked --profile guest -p tenant-lister
	cargo build --locked --profile guest -p late-flights --target $(guest_wasm)
	@target="$(guest_target)"; $(guest_copy); \
	copy "$$target/guest/libtenant_lister$(guest_library)" plugins/tenant-lister.so && \
	copy "$$target/$(guest_wasm)/guest/late_flights.wasm" plugins/late-flights.wasm

guest-target:
	@test -d "$$(rustc --print target-libdir --target $(guest_wasm))" || { \
		command -v rustup >/dev/null || { \
			echo "Rust's target $(guest_wasm) is missing, and there is no rustup to install it with." >&2; \
			exit 1; }; \
		echo "Installing Rust's target $(guest_wasm), which components are built for"; \
		rustup target add $(guest_wasm); }
