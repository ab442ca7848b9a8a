#!/bin/sh
# Builds the image that agents run in. Needs cargo and Docker, no registry. Usage: container/build.sh [IMAGE]
set -eu

image=${1:-g2-agent:latest}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
target=$(rustc -vV | sed -n 's/^host: //p')

# A target of its own (although it is the host's) keeps the flags away from build scripts and from other builds.
cd "$here/.."
RUSTFLAGS="-C target-feature=+crt-static" cargo build --release -p agent-runner --bin g2-agent --target "$target"
binary=${CARGO_TARGET_DIR:-target}/$target/release/g2-agent

# Only the binary is sent to the engine. Unchanged, it is the layer that is there already.
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
cp "$binary" "$here/Dockerfile" "$context/"
chmod 755 "$context/g2-agent"
docker build --quiet --tag "$image" "$context" >/dev/null
echo "built $image"
