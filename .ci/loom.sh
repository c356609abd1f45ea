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

# models CHECKER PACKAGE [FILTER]
models() {
    printf -- '-- %s, %s\n' "$1" "$2"
    RUSTFLAGS="--cfg kv_$1" CARGO_TARGET_DIR=$target/$1 cargo test --quiet --package "$2" --release --lib "${3:-$1::}"
}

models loom kv-index "$@"
models loom kv-routing "$@"
models shuttle kv-index "$@"
