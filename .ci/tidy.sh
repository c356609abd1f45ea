#!/usr/bin/env bash
# Rules of the layout that no lint knows.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

main() {
    # Models of concurrent code (loom.rs, shuttle.rs) are tests; their threads are the model checker's.
    absent 'a clock, a thread, a socket or a runtime in a library, outside its adapters' \
        'Instant::now|SystemTime::now|thread::(spawn|sleep)|Tcp(Stream|Listener)|UdpSocket|tokio::|zeromq::' \
        "$(find kv-*/src -name '*.rs' -not -path '*/src/adapter/*' -not -name loom.rs -not -name shuttle.rs)"
    absent 'unfinished work' '\b(todo!|unimplemented!|dbg!)' "$(find kv-* examples benches fuzz -name '*.rs' -not -path '*/target/*')"
    for crate in kv-events/src/lib.rs kv-routing/src/lib.rs examples/lib.rs; do
        grep -q '^#!\[forbid(unsafe_code)\]' "$crate" || { echo "$crate does not forbid unsafe code"; exit 1; }
    done
}

# Fails with the places where the pattern occurs.
absent() {
    local rule=$1 pattern=$2 files=$3
    if xargs grep -nE "$pattern" <<<"$files"; then
        echo "found: $rule"
        exit 1
    fi
}

main
