# Everyday commands (https://just.systems). Each also works when it is typed by hand.

# List the commands.
default:
    @just --list

# Build a cell on this machine and run it, with one agent, in the foreground.
dev *ARGS:
    cargo run --release -- dev {{ARGS}}

# What takes seconds and finds most: formatting, lints, the house rules.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo test -p borough-tests --test tidy --test layers

# Every test of the workspace.
test *ARGS:
    cargo test --workspace {{ARGS}}

# One area of the whole-system tests, for example: just cell drain
cell AREA:
    cargo test -p borough-tests --test cell {{AREA}}::

# Simulated runs of the whole system: COUNT seeds from FIRST on. A failure prints its seed and command.
simulate FIRST="0" COUNT="100":
    BOROUGH_SEED={{FIRST}} BOROUGH_SEEDS={{COUNT}} cargo test --profile simulation -p borough-simulation --test system whole

# Break the code in one of the ways of docs/simulation.md and see that its test notices. Without NAME: every way.
mutate *NAME:
    cargo run -p borough-simulation --bin mutations -- {{NAME}}

# Rewrite the golden files that changed. Read the difference before you commit it: no stored byte may change.
golden CRATE:
    UPDATE_EXPECT=1 cargo test -p {{CRATE}}

# The documentation of every crate.
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# The benches of hot paths. Each says what it measures. For example: just bench --bench keys; just bench -- --test
bench *ARGS:
    cargo bench -p borough-scheduler-core -p borough-kv -p borough-model -p borough-store {{ARGS}}

# The program as packages contain it: package/borough without symbols, and its symbols in package/borough.debug, both in
# the profile's folder of the target directory. Cargo's own file stays whole, so that a second run finds the symbols.
dist:
    #!/usr/bin/env bash
    set -euo pipefail
    cargo build --profile dist --features jemalloc --bin borough
    built="${CARGO_TARGET_DIR:-target}/dist"
    mkdir -p "$built/package"
    objcopy --only-keep-debug "$built/borough" "$built/package/borough.debug"
    objcopy --strip-all --add-gnu-debuglink="$built/package/borough.debug" "$built/borough" "$built/package/borough"

# Everything that a change must pass, as it is checked before it is merged.
ci:
    .ci/run
