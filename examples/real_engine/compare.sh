#!/usr/bin/env bash
# Two real engines with small pools, the gateway in front of them, a few hundred requests, and predicted against reported.
# usage: compare.sh [vllm|sglang] [arguments of compare...]     e.g. compare.sh sglang --requests 500 --seed 3
#        KV_ENGINES  where setup.sh has put the engines (~/.cache/kv-engines)
#        GATEWAY     more arguments for the gateway
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
engine=${1:-vllm}
[ $# -eq 0 ] || shift
logs=$(mktemp -d)
pids=()

main() {
    [ -d "${KV_ENGINES:-$HOME/.cache/kv-engines}/tiny" ] || { echo "no engines: run $here/setup.sh first" >&2; exit 1; }
    trap stop EXIT
    cargo build --release --manifest-path "$here/../Cargo.toml" --example gateway --example compare
    start_engine 18000 15557 15657
    start_engine 18001 15567 15667
    await http://127.0.0.1:18000/v1/models 300
    await http://127.0.0.1:18001/v1/models 300
    # shellcheck disable=SC2086  # several arguments
    start gateway "$(example gateway)" --listen 127.0.0.1:18080 ${GATEWAY:-} \
        --engine "http://127.0.0.1:18000,name=one,events=tcp://127.0.0.1:15557,replay=tcp://127.0.0.1:15657" \
        --engine "http://127.0.0.1:18001,name=two,events=tcp://127.0.0.1:15567,replay=tcp://127.0.0.1:15667"
    "$(example compare)" --gateway http://127.0.0.1:18080 "$@"
}

start_engine() {
    case $engine in
        # 40 blocks of 32 tokens: a few prompts.
        vllm) start "vllm-$1" "$here/start_vllm.sh" "$@" --num-gpu-blocks-override 40 ;;
        sglang) TOKENS=1280 start "sglang-$1" "$here/start_sglang.sh" "$@" ;;
        *) echo "expected vllm or sglang, got $engine" >&2; exit 1 ;;
    esac
}

start() {
    local name=$1
    shift
    "$@" >"$logs/$name.log" 2>&1 &
    pids+=($!)
}

example() {
    echo "${CARGO_TARGET_DIR:-$here/../../target}/release/examples/$1"
}

# Waits until the address answers, at most so many seconds.
await() {
    local deadline=$((SECONDS + $2))
    until curl --silent --fail --noproxy '*' --output /dev/null "$1"; do
        for pid in "${pids[@]}"; do
            kill -0 "$pid" 2>/dev/null || { tail -n 20 "$logs"/*.log >&2; exit 1; }
        done
        [ $SECONDS -lt $deadline ] || { echo "no answer from $1 in $2 s; logs in $logs" >&2; exit 1; }
        sleep 1
    done
}

stop() {
    for pid in "${pids[@]}"; do
        kill "$pid" 2>/dev/null || true
    done
    wait
}

main "$@"
