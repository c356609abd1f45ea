#!/usr/bin/env bash
# Reads out of a README what the gate holds it to.
#
#     readme.sh test-command README.md    the one `cargo test` line of its code blocks
#     readme.sh quick-start README.md     the first Rust block under the heading "Quick start"
set -euo pipefail

main() {
    [[ $# -eq 2 && -f $2 ]] || fail "usage: readme.sh test-command|quick-start README (got: $*)"
    case $1 in
        test-command) test_command "$2" ;;
        quick-start) quick_start "$2" ;;
        *) fail "unknown part: $1" ;;
    esac
}

test_command() {
    local commands
    commands=$(awk '/^```/ { code = !code; next } code' "$1" | sed -nE 's/^(\$ )?(cargo test[^#]*[^# ]) *(#.*)?$/\2/p' | sort -u)
    [[ -n $commands ]] || fail "$1: no code block has a line that begins with 'cargo test'"
    [[ $commands != *$'\n'* ]] || fail "$1: more than one test command: ${commands//$'\n'/, }"
    printf '%s\n' "$commands"
}

quick_start() {
    local program
    program=$(awk '
        /^#+ / { here = tolower($0) ~ /quick start/; next }
        here && /^```rust/ { code = 1; next }
        code && /^```/ { exit }
        code
    ' "$1")
    [[ -n $program ]] || fail "$1: no \`\`\`rust block under a heading 'Quick start'"
    [[ $program == *'fn main'* ]] || fail "$1: the quick start has no fn main"
    printf '%s\n' "$program"
}

fail() {
    printf '%s\n' "$1" >&2
    exit 1
}

main "$@"
