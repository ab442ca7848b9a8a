#!/bin/sh
# Builds the image that agents run in. Unchanged parts are taken from the last time.
#
#   container/build.sh [IMAGE]             Node, Chromium and Claude Code, from a registry
#   container/build.sh --offline [IMAGE]   a small Debian and Claude Code, without a registry: needs root, debootstrap, npm
#   container/build.sh --bare [IMAGE]      the runner alone, for the built-in scripted agent
#
# The small Debian comes from the address in G2_DEBIAN_MIRROR, otherwise from the mirror of this machine's own apt.
# IMAGE is g2-agent:latest unless it is said. Needs cargo and Docker. `g2 image build` runs this file, too: it lays the
# runner beside it, in agent/, and then no cargo is needed.
set -eu

kind=full
case ${1:-} in
  --offline | --bare) kind=${1#--} && shift ;;
  -*) sed -n '2,10s/^# \{0,1\}//p' "$0" && exit 2 ;;
esac
image=${1:-g2-agent:latest}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
laid_out=
[ ! -d "$here/agent" ] || laid_out=$here
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work" $laid_out' EXIT
trap 'exit 130' INT TERM HUP
say() { echo "$*" >&2; }
claude=$(sed -n 's/^version=//p' "$here/claude.sh")

# Only what is copied is sent to the engine.
mkdir -p "$work/context/lib"
if [ -n "$laid_out" ]; then
  cp -R "$here/agent/." "$work/context/"
  runner=$(cat "$here/runner")
  cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/g2/claude-cli
else
  cd "$here/.."
  # The runner, static. A target of its own (although it is the host's) keeps the flags away from build scripts and from
  # other builds.
  target=$(rustc -vV | sed -n 's/^host: //p')
  RUSTFLAGS="-C target-feature=+crt-static" \
    cargo build --profile dist --locked -p agent-runner --bin g2-agent --target "$target"
  folder=${CARGO_TARGET_DIR:-target}
  cache=$folder/claude-cli
  cp "$folder/$target/dist/g2-agent" "$work/context/"
  runner=$("$work/context/g2-agent" --version | cut -d ' ' -f 2)
fi
cp "$here/Dockerfile" "$here/claude.sh" "$work/context/"
chmod 755 "$work/context/g2-agent"

# A small Debian with what an agent works with, and the CLI. Named by what it is made of.
debian() {
  suite=bookworm
  packages=ca-certificates,curl,git,jq,procps
  base=g2-debian:$(echo "$suite $packages" | cat - "$here/claude.sh" | sha256sum | cut -c 1-16)
  if docker image inspect "$base" >/dev/null 2>&1; then
    say "a small Debian with Claude Code $claude: as the last time ($base)"
    return
  fi
  mirror=$("$here/mirror.sh" "$suite")
  say "Claude Code $claude, by npm"
  "$here/claude.sh" "$cache/$claude" >&2
  say "a small Debian ($suite), from $mirror: this takes about a minute"
  # A folder of its own: the work folder is closed to others, and the image's root must not be.
  root=$work/root
  debootstrap --force-check-gpg --variant=minbase --include="$packages" "$suite" "$root" \
    "$mirror" >"$work/log" || { tail -n 20 "$work/log" >&2 && exit 1; }
  rm -rf "$root"/usr/share/doc/* "$root"/usr/share/man/* "$root"/usr/share/locale/* "$root"/var/log/* \
    "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/*
  cp "$cache/$claude/claude" "$root/usr/local/bin/claude"
  say "handing it to the engine"
  tar -C "$root" -c . | docker import - "$base" >/dev/null
}

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
say "the image $image"
said=$work/said
[ "$kind" != full ] || said=/dev/stderr
docker build "$@" --tag "$image" "$work/context" >"$said" 2>&1 || { [ "$kind" = full ] || cat "$said" >&2; exit 1; }
echo "built $image (runner $runner)"
