#!/usr/bin/env bash
# Model checks of what runs without locks: every schedule of small models (loom), then many random schedules of larger scenes
# (shuttle). Each builds the library anew with its own atomics, so each has a folder of its own. Two minutes on two cores.
#
#     loom.sh [FILTER]    the models whose name contains FILTER; LOOM_MAX_PREEMPTIONS=3 looks deeper, for hours;
#                         SHUTTLE_RANDOM_SEED=7 draws other schedules
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=${CARGO_TARGET_DIR:-$PWD/target}
# Else shuttle says at every test what the models of loom are for.
export SHUTTLE_SILENCE_WARNINGS=1

for checker in loom shuttle; do
    printf -- '-- %s\n' "$checker"
    RUSTFLAGS="--cfg kv_$checker" CARGO_TARGET_DIR=$target/$checker \
        cargo test --quiet --package kv-index --release --lib "${1:-$checker::}"
done
