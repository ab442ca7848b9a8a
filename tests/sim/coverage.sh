#!/bin/sh
# Plays stories with a counter in each piece of code, and says how much of the daemon they went through: `tests/sim/coverage.sh [FOLDER]`,
# where FOLDER lies below src/ (loops). G2_SEEDS says how many stories (1000). Below it a list of the files; `--show` in G2_COVERAGE
# has llvm-cov print the lines that nothing went through. Needs `rustup component add llvm-tools`.
set -eu
cd "$(dirname "$0")/../.."
folder=${1:-loops}
tools=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin
[ -x "$tools/llvm-cov" ] || { echo "llvm-cov is missing: rustup component add llvm-tools" >&2; exit 1; }
built=${CARGO_TARGET_DIR:-$PWD/target}/coverage
counts=$built/counts
rm -rf "$counts"
mkdir -p "$counts"
# A build of its own, optimised as little as the suite's: what the compiler has merged can't be told apart.
RUSTFLAGS="-C instrument-coverage" CARGO_TARGET_DIR=$built LLVM_PROFILE_FILE=/dev/null cargo build -q -p g2-sim --bin g2-sim
# Processes add to a few files together.
LLVM_PROFILE_FILE="$counts/%4m.profraw" "$built/debug/g2-sim" --seeds "${G2_SEEDS:-1000}" || echo "a promise was broken"
"$tools/llvm-profdata" merge -sparse "$counts"/*.profraw -o "$counts/all.profdata"
ask() { "$tools/llvm-cov" "$@" -instr-profile="$counts/all.profdata" "$built/debug/g2-sim" --sources "src/$folder"; }
case ${G2_COVERAGE:-} in
    --show) ask show --show-line-counts-or-regions --region-coverage-lt=100 ;;
    *) ask report --show-branch-summary=false | awk '/^-|^File|\.rs|TOTAL/ {print $1, $(NF-2), $(NF-1), $NF}' | column -t ;;
esac
