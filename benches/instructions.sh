#!/usr/bin/env bash
# Counts the instructions of the hot paths under callgrind: the same on any machine, whatever else runs there.
#
#   benches/instructions.sh                # a table, and JSON beside the contest's results
#   benches/instructions.sh ours           # one contender
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

contenders=("${@:-ours}")
[[ $# -gt 0 ]] || contenders=(ours smg)
paths=(store-shared store-private store-disagree remove-shared remove-private remove-disagree lookup-shared lookup-private lookup-decode-start lookup-decode-end)

if ! command -v valgrind >/dev/null; then
    echo 'instructions: skipped, valgrind not found'
    exit 0
fi

# The same profile and features as the contest's, so that the peers are built once for both.
program=$(cargo bench --bench instructions --bench contest --no-run --message-format json 2>/dev/null |
    sed -nE 's/.*"executable":"([^"]*\/instructions-[^"]*)".*/\1/p')
results=$(dirname "$(dirname "$program")")/contest
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Instructions of one path of one contender, for each block or lookup.
count() {
    local contender=$1 path=$2 operations total
    operations=$(valgrind --quiet --tool=callgrind --callgrind-out-file="$scratch/out" --toggle-collect='*measured*' \
        "$program" "$contender" "$path")
    total=$(sed -nE 's/^(summary|totals): ([0-9]+).*/\2/p' "$scratch/out" | tail -1)
    [[ $total -gt 0 ]] || { echo "nothing was collected for $contender $path" >&2; return 1; }
    awk -v total="$total" -v operations="$operations" 'BEGIN { printf "%.1f", total / operations }'
}

printf '%-24s' 'instructions per block, or lookup'
printf '%12s' "${contenders[@]}"
printf '\n'
rows=()
for path in "${paths[@]}"; do
    printf '%-33s' "$path"
    for contender in "${contenders[@]}"; do
        each=$(count "$contender" "$path")
        printf '%12s' "$each"
        rows+=("{\"path\":\"$path\",\"contender\":\"$contender\",\"instructions\":$each}")
    done
    printf '\n'
done

mkdir -p "$results"
json=$results/instructions.json
(IFS=,; printf '[%s]\n' "${rows[*]}") >"$json"
echo "written: $json"
