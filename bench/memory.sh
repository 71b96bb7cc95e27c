#!/usr/bin/env bash
# What a million keys cost: three nodes, 100-byte values, on disk. Appends a line to docs/results/memory.jsonl with the
# resident memory of each node after writing and after random reads, the bytes on disk, and how long a killed cluster
# takes until it serves again.
#
#   bench/memory.sh [KEYS]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
keys=${1:-1000000}
cargo build --release --manifest-path "$root/Cargo.toml" --bin quorate
program=${CARGO_TARGET_DIR:-$root/target}/release/quorate
dir=$(mktemp -d)
trap '"$program" down --data "$dir" >/dev/null 2>&1 || true; rm -rf "$dir"' EXIT
cluster() { "$program" up --nodes 3 --detach --data "$dir" --base-port 26379 >/dev/null; }
status() { "$program" status --data "$dir" --output json; }
resident() { status | python3 -c 'import json,sys; print([n["report"]["process"]["resident_bytes"] >> 20 for n in json.load(sys.stdin)["nodes"]])'; }

cluster
load=(bench --data "$dir" --keys "$keys" --value-bytes 100 --clients 64)
"$program" "${load[@]}" set --fill --seconds 10 >/dev/null
written=$(resident)
"$program" "${load[@]}" get --seconds 10 >/dev/null
read=$(resident)
disk=$(du -sm "$dir" | cut -f1)
for node in 1 2 3; do "$program" kill "$node" --data "$dir" >/dev/null; done
begun=$(date +%s%N)
cluster
until redis=$("$program" get "bench:$(printf '%012d' $((keys - 1)))" --data "$dir" 2>/dev/null) && [ -n "$redis" ]; do :; done
ms=$((($(date +%s%N) - begun) / 1000000))
printf '{"what":"memory","commit":"%s","keys":%s,"value_bytes":100,"resident_mib_after_writing":%s,"resident_mib_after_reading":%s,"disk_mib_of_three":%s,"killed_cluster_serves_after_ms":%s}\n' \
    "$(git -C "$root" rev-parse --short HEAD)" "$keys" "$written" "$read" "$disk" "$ms" | tee -a "$root/docs/results/memory.jsonl"
