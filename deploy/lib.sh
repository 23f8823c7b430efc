# What the tests of this folder share. Each test sources it.
# shellcheck shell=bash

cache="${XDG_CACHE_HOME:-$HOME/.cache}/borough"

step() { printf '\n== %s (%s)\n' "$*" "$(date -u +%H:%M:%S)"; }

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# Says what this run leaves out, on the terminal and in the file that collects it.
not_exercised() {
  echo "NOT EXERCISED: $*"
  [ -z "${BOROUGH_NOT_EXERCISED:-}" ] || echo "NOT EXERCISED: $*" >> "$BOROUGH_NOT_EXERCISED"
}

# Prints the path of the program under test: BOROUGH_BINARY, or what a build of the workspace has made.
borough_find() {
  local target="${CARGO_TARGET_DIR:-$cache/target}" each
  for each in "${BOROUGH_BINARY:-}" "$target/debug/borough-under-test" "$target/debug/borough"; do
    if [ -n "$each" ] && [ -x "$each" ]; then
      realpath "$each"
      return
    fi
  done
  fail "no program to test: build it (cargo build -p borough-cli), or name one with BOROUGH_BINARY"
}

# Ends a process that this test has started, and waits for it.
ended() {
  kill "$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
}

# Repeats a command until it succeeds, for at most so many seconds.
until_true() { # SECONDS COMMAND...
  local deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt $deadline ] || return 1
    sleep 0.2
  done
}
