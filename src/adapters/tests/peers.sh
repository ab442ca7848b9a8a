#!/usr/bin/env bash
# Installs the servers and clients of others that the adapters are judged by, below `target/peers`. Run again, it does nothing.
set -euo pipefail
cd "$(dirname "$0")/../../.."
peers="${CARGO_TARGET_DIR:-target}/peers"
mkdir -p "$peers"

# A Python environment with these packages, each in this version.
python() {
  local name=$1
  shift
  [ "$(cat "$peers/$name/versions" 2>/dev/null)" = "$*" ] && return
  rm -rf "${peers:?}/$name"
  python3 -m venv "$peers/$name"
  "$peers/$name/bin/pip" install -q --disable-pip-version-check "$@"
  echo "$*" >"$peers/$name/versions"
}

python synapse matrix-synapse==1.163.2
