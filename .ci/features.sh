#!/usr/bin/env bash
# Builds every subset of the features of each given package: features only add API, so each must build alone and in
# any company.
#
#     features.sh PACKAGE...    each a folder with a Cargo.toml
set -euo pipefail

main() {
    local package
    for package in "$@"; do
        check_subsets "$package"
    done
}

check_subsets() {
    local package=$1 names subset
    mapfile -t names < <(feature_names "$package/Cargo.toml")
    for ((mask = 0; mask < 1 << ${#names[@]}; mask++)); do
        subset=$(subset_of "$mask" "${names[@]}")
        printf -- '-- %s [%s]\n' "$package" "$subset"
        cargo check --quiet --package "$package" --no-default-features --features "$subset"
    done
}

# The keys of the table [features], `default` aside.
feature_names() {
    awk '/^\[/ { here = $0 == "[features]"; next } here && /^[A-Za-z0-9_-]+ *=/ { print $1 }' "$1" | grep -vx default || true
}

# The names whose bit is set, with commas.
subset_of() {
    local mask=$1 index=0 names=() name
    shift
    for name in "$@"; do
        if ((mask >> index++ & 1)); then
            names+=("$name")
        fi
    done
    (IFS=,; printf '%s' "${names[*]}")
}

main "$@"
