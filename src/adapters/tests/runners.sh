#!/usr/bin/env bash
# Builds the agents' runners of NanoClaw v1 and of the TypeScript program G2, unmodified, below `target/peers/runners`. Run again, it
# does nothing. Their sources are those of clones named `nanoclaw` and `G2` in the folder $G2_SOURCES, otherwise GitHub's; nothing
# other of theirs is kept. A runner that can't be had is named, and its tests say `skipped: no runner`.
set -euo pipefail
cd "$(dirname "$0")/../../.."
runners="${CARGO_TARGET_DIR:-target}/peers/runners"
mkdir -p "$runners"

# A git directory that has the commit, in $found: a clone, a bare one, or what GitHub gives into $3.
find_source() {
  local repository=$1 commit=$2 place
  for place in ${G2_SOURCES:+"$G2_SOURCES"}; do
    for found in "$place/${repository#*/}/.git" "$place/${repository#*/}"; do
      git --git-dir="$found" cat-file -e "$commit:container/agent-runner" 2>/dev/null && return
    done
  done
  found=$3
  git init -q --bare "$found"
  GIT_TERMINAL_PROMPT=0 timeout 60 git --git-dir="$found" fetch -q --depth 1 "https://github.com/$repository" "$commit" 2>/dev/null
}

# The runner of a commit, as its own lock file has its packages, built by its own compiler.
runner() {
  local name=$1 repository=$2 commit=$3 found
  [ "$(cat "$runners/$name/commit" 2>/dev/null)" = "$commit" ] && return
  local work
  work=$(mktemp -d)
  if ! find_source "$repository" "$commit" "$work/git"; then
    echo "no runner $name: neither a clone nor GitHub has $repository at ${commit:0:9}"
  elif ! (mkdir "$work/runner" &&
    git --git-dir="$found" archive "$commit:container/agent-runner" | tar -x -C "$work/runner" &&
    cd "$work/runner" &&
    npm ci --silent --no-audit --no-fund --ignore-scripts &&
    npx --no-install tsc) >"$work/log" 2>&1; then
    echo "no runner $name: it can't be built: $(tail -n 1 "$work/log")"
  else
    echo "$commit" >"$work/runner/commit"
    rm -rf "${runners:?}/$name"
    mv "$work/runner" "$runners/$name"
  fi
  rm -rf "$work"
}

runner v1 qwibitai/nanoclaw a81e1651b5e48c9194162ffa2c50a22283d5ecd3
runner g2 v-gaurav/G2 558d14967c6a69cbd41dc656b4014e130b03c7fe
