#!/usr/bin/env bash
# AddressSanitizer and ThreadSanitizer over kv-index's tests. Not in the gate: it needs a nightly toolchain, with rust-src, since
# for threads the standard library is built with the sanitizer as well, and takes ten minutes on two cores.
#
#     sanitize.sh [address|thread]...    both if none is named; KV_STRESS_RUNS=5 runs the scenes of tests/concurrent five times
#
# `kv_portable` takes the vector loads out, which are assembly and so invisible to a sanitizer. ThreadSanitizer knows no fences:
# whatever is read beside a writer here is an atomic, and what is not is guarded by a lock, so it needs none.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=${CARGO_TARGET_DIR:-$PWD/target}
host=$(rustc -vV | sed -n 's/^host: //p')
[[ $# -gt 0 ]] || set -- address thread

for sanitizer in "$@"; do
    build_std=()
    [[ $sanitizer == address ]] || build_std=(-Zbuild-std)
    printf -- '-- %s\n' "$sanitizer"
    RUSTFLAGS="-Zsanitizer=$sanitizer --cfg kv_portable" CARGO_TARGET_DIR=$target/$sanitizer CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true \
        cargo +nightly test "${build_std[@]}" --target "$host" --package kv-index --release \
        --lib --test chain --test concurrent --test lanes --test snapshot
done
