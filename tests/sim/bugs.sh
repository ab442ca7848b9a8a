#!/bin/sh
# Plants each bug of tests/sim/bugs in a copy of the sources, and says how many seeds find it: `tests/sim/bugs.sh [NAME…]`.
# A bug that 1000 seeds do not find ends it with 1.
set -eu
cd "$(dirname "$0")/../.."
seeds=${G2_SEEDS:-1000}
copy=target/bugs/tree
rm -rf "$copy"
mkdir -p "$copy"
git ls-files -z | xargs -0 cp --parents -t "$copy"
missed=0
for patch in tests/sim/bugs/*.patch; do
    name=$(basename "$patch" .patch)
    [ $# -eq 0 ] || case " $* " in *" $name "*) ;; *) continue ;; esac
    git apply --directory="$copy" "$patch"
    if ! (cd "$copy" && CARGO_TARGET_DIR="$PWD/../target" cargo build -q -p g2-sim --bin g2-sim); then
        echo "$name: it does not build"
        missed=1
    elif found=$(target/bugs/target/debug/g2-sim --seeds "$seeds" --first); then
        echo "$name: NOT FOUND by $seeds seeds"
        missed=1
    else
        echo "$name: found by $(echo "$found" | tail -n 2 | head -n 1)"
        echo "$found" | head -n 3 | sed 's/^/    /'
    fi
    git apply -R --directory="$copy" "$patch"
done
exit $missed
