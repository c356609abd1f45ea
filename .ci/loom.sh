#!/usr/bin/env bash
# Model checks of what runs without locks: every schedule of small models (loom), many random schedules of larger scenes
# (shuttle). Each builds the library anew with its own atomics, so each has a folder of its own.
#
#     loom.sh [FILTER]    the models whose name contains FILTER; LOOM_MAX_PREEMPTIONS=3 looks deeper, for hours
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=${CARGO_TARGET_DIR:-$PWD/target}
filter=${1:-}

for checker in loom shuttle; do
    printf -- '-- %s\n' "$checker"
    RUSTFLAGS="--cfg kv_$checker" CARGO_TARGET_DIR=$target/$checker \
        cargo test --quiet --package kv-index --release --lib "$checker::$filter"
done
