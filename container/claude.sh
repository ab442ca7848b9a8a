#!/bin/sh
# Puts the native Claude Code CLI, of the one version that the runner is tested with, into a folder; does nothing where
# it is already. Needs npm and a registry. Usage: container/claude.sh FOLDER
set -eu

version=2.1.197
case $(uname -m) in
  x86_64)
    package=claude-code-linux-x64
    sha512=ac894a9ab63440cc8780f457fcc616363d37f6f6f2a480af23d8d57b7aecf57cb64673649724a3c8fc6a87ad9069dce7ce87ed10edb7b98435b4578f710fff6e
    ;;
  aarch64)
    package=claude-code-linux-arm64
    sha512=b31e92a068f730d479095f980e436d6cb1d76b5b67dc6f2a7181609b5827bce8bd38341429b8623df6a79097e44cc0d57a43af9ca2619ba8bd8461483f3a7b71
    ;;
  *)
    echo "Claude Code comes for x86_64 and aarch64, not for $(uname -m)" >&2
    exit 1
    ;;
esac

[ ! -x "$1/claude" ] || exit 0
mkdir -p "$1"
# Beside its place, so that the last step is a rename: a reader finds it whole.
work=$(mktemp -d "$1/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
archive=$(cd "$work" && npm pack --loglevel=error "@anthropic-ai/$package@$version")
echo "$sha512  $work/$archive" | sha512sum --check --quiet
tar -xzf "$work/$archive" -C "$work" --no-same-owner package/claude
chmod 755 "$work/package/claude"
mv "$work/package/claude" "$1/claude"
