# Sourced by `generate` and `test`: what they need, outside the tree. Versions are those of tools.env.
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source=tools.env
. "$here/tools.env"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/borough/client-go"
export GOBIN="$cache/bin" GOFLAGS="${GOFLAGS:--buildvcs=false}"
mkdir -p "$GOBIN"

# Installs a Go program at a version, unless it is there. A file beside it has the version.
go_tool() { # PACKAGE VERSION
  local name="${1##*/}"
  [ -x "$GOBIN/$name" ] && [ "$(cat "$GOBIN/$name.version" 2>/dev/null)" = "$2" ] && return
  (cd "$cache" && go install "$1@$2")
  printf '%s' "$2" > "$GOBIN/$name.version"
}

# The protoc of grpcio-tools, in a virtual environment of its own for each version.
protoc_python() {
  local venv="$cache/protoc-$GRPCIO_TOOLS"
  if [ ! -e "$venv/ready" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "grpcio-tools==$GRPCIO_TOOLS"
    touch "$venv/ready"
  fi
  printf '%s' "$venv/bin/python"
}
