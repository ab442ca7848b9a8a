#!/bin/sh
# Builds the image that agents run in. Unchanged parts are taken from the last time.
#
#   container/build.sh [IMAGE]             Node, Chromium and Claude Code, from a registry
#   container/build.sh --offline [IMAGE]   a small Debian and Claude Code, without a registry: needs root, debootstrap, npm
#   container/build.sh --bare [IMAGE]      the runner alone, for the built-in scripted agent
#
# IMAGE is g2-agent:latest unless it is said. Needs cargo and Docker.
set -eu

kind=full
case ${1:-} in
  --offline | --bare) kind=${1#--} && shift ;;
  -*) sed -n '2,8s/^# \{0,1\}//p' "$0" && exit 2 ;;
esac
image=${1:-g2-agent:latest}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cd "$here/.."
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT

# The runner, static. A target of its own (although it is the host's) keeps the flags away from build scripts and from
# other builds.
target=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS="-C target-feature=+crt-static" \
  cargo build --release --locked -p agent-runner --bin g2-agent --target "$target"
folder=${CARGO_TARGET_DIR:-target}
claude=$(sed -n 's/^version=//p' "$here/claude.sh")

# A small Debian with what an agent works with, and the CLI. Named by what it is made of.
debian() {
  suite=bookworm
  packages=ca-certificates,curl,git,jq,procps
  base=g2-debian:$(echo "$suite $packages" | cat - "$here/claude.sh" | sha256sum | cut -c 1-16)
  if docker image inspect "$base" >/dev/null 2>&1; then return; fi
  "$here/claude.sh" "$folder/claude-cli/$claude"
  mirror=$(apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(REPO_URI)' 2>/dev/null |
    sed -n "s/^Debian $suite //p" | head -n 1)
  # A folder of its own: the work folder is closed to others, and the image's root must not be.
  root=$work/root
  debootstrap --force-check-gpg --variant=minbase --include="$packages" "$suite" "$root" \
    "${mirror:-http://deb.debian.org/debian}" >"$work/log" || { tail -n 20 "$work/log" >&2 && exit 1; }
  rm -rf "$root"/usr/share/doc/* "$root"/usr/share/man/* "$root"/usr/share/locale/* "$root"/var/log/* \
    "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/*
  cp "$folder/claude-cli/$claude/claude" "$root/usr/local/bin/claude"
  tar -C "$root" -c . | docker import - "$base" >/dev/null
}

# Only what is copied is sent to the engine.
mkdir "$work/context"
cp "$folder/$target/release/g2-agent" "$here/Dockerfile" "$here/claude.sh" "$work/context/"
chmod 755 "$work/context/g2-agent"
runner=$("$work/context/g2-agent" --version | cut -d ' ' -f 2)
set -- --build-arg "RUNNER=$runner"
case $kind in
  bare) set -- "$@" --target bare ;;
  offline)
    debian
    set -- "$@" --network none --build-arg "BASE=$base" --build-arg PACKAGES= --build-arg "CLAUDE=$claude"
    ;;
  full) set -- "$@" --build-arg "CLAUDE=$claude" ;;
esac
# What takes minutes shows how it goes; the rest speaks only of what went wrong.
said=$work/said
[ "$kind" != full ] || said=/dev/stderr
docker build "$@" --tag "$image" "$work/context" >"$said" 2>&1 || { [ "$kind" = full ] || cat "$said" >&2; exit 1; }
echo "built $image (runner $runner)"
