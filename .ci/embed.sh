#!/usr/bin/env bash
# Does what an embedder does: an empty crate, the three libraries by path, and the README's quick start as its program.
#
#     embed.sh README.md
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readme=${1:?usage: embed.sh README}

crate=$(mktemp -d)
trap 'rm -rf "$crate"' EXIT
manifest=$crate/Cargo.toml

cargo init --quiet --vcs none --name embedder "$crate"
for library in kv-index kv-events kv-routing; do
    cargo add --quiet --manifest-path "$manifest" --path "$root/$library"
done
# The versions that are tested here, not whatever the registry has today.
cp "$root/Cargo.lock" "$crate/Cargo.lock"
bash "$root/.ci/readme.sh" quick-start "$readme" >"$crate/src/main.rs"

output=$(cargo run --quiet --manifest-path "$manifest")
printf '%s\n' "$output"
[[ -n $output ]] || { echo "$readme: the quick start printed nothing" >&2; exit 1; }
