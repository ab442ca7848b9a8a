#!/usr/bin/env bash
# Makes the recording of the terminal, docs/recording.cast (asciicast 2; `asciinema play docs/recording.cast`), of a first quarter of an
# hour with G2. Needs python3. With an argument the recording goes there, and with G2_BIN=DIR the `g2` of that folder is recorded.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${G2_BIN:-}" ]; then
  cargo build --bin g2
  G2_BIN=$PWD/target/debug
fi
G2_BIN=$G2_BIN exec python3 docs/recording.py "${1:-docs/recording.cast}"
