#!/bin/sh
# Plants each bug of tests/sim/bugs in a copy of the sources, and says which seed finds it: `tests/sim/bugs.sh [NAME…]`. A bug that
# G2_SEEDS seeds (1000) do not find has it end with 1.
set -eu
cd "$(dirname "$0")/../.."
seeds=${G2_SEEDS:-1000}
copy=target/bugs/tree
built=${CARGO_TARGET_DIR:-$PWD/target/bugs/built}
rm -rf "$copy"
mkdir -p "$copy"
git ls-files -z | xargs -0 cp --parents -t "$copy"
missed=0
for patch in tests/sim/bugs/*.patch; do
    name=$(basename "$patch" .patch)
    [ $# -eq 0 ] || case " $* " in *" $name "*) ;; *) continue ;; esac
    patch -s -p1 -d "$copy" < "$patch"
    if ! (cd "$copy" && CARGO_TARGET_DIR="$built" cargo build -q -p g2-sim --bin g2-sim); then
        echo "$name: it does not build"
        missed=1
    elif found=$(RUST_BACKTRACE=0 "$built/debug/g2-sim" --seeds "$seeds" --first); then
        echo "$name: NOT FOUND by $seeds seeds"
        missed=1
    else
        echo "$name: found"
        echo "$found" | head -n 2 | cut -c 1-200 | sed 's/^/    /'
    fi
    patch -s -p1 -R -d "$copy" < "$patch"
done
exit $missed
