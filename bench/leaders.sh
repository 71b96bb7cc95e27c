#!/usr/bin/env bash
# What a group of 3 to 9 members writes when all of them lead some of its buckets, beside one that leads all (Scatter, figure 11): real processes of
# this machine, in turns, each started anew in each round. One leader is a group whose keys are in one bucket.
#
#   bench/leaders.sh [ROUNDS [DURABILITY]]      by default 3 rounds, memory: what is measured is agreement, not one disk that all share
#
# Appends a line for each point to docs/results/leaders.jsonl: what `quorate bench set` measured, with 32 clients of 8 commands each at all nodes.
# BUCKETS: of the group with many leaders, by default 18. SECONDS_EACH: of each point, by default 5.
set -euo pipefail
rounds=${1:-3}
durability=${2:-memory}
buckets=${BUCKETS:-18}
seconds=${SECONDS_EACH:-5}
root=$(cd "$(dirname "$0")/.." && pwd)
cargo build --release --manifest-path "$root/Cargo.toml" --bin quorate
program=${CARGO_TARGET_DIR:-$root/target}/release/quorate
work=$(mktemp -d)
finish() {
    "$program" down --data "$work/cluster" >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap finish EXIT

for round in $(seq "$rounds"); do
    for nodes in 3 5 7 9; do
        for cut in 1 "$buckets"; do
            rm -rf "$work/cluster"
            "$program" up --detach --data "$work/cluster" --nodes "$nodes" --topology ring --copies "$nodes" --buckets "$cut" \
                --durability "$durability" >/dev/null
            # Leaders are shared out by load: what is counted comes after they have found their places.
            line=$("$program" bench set --data "$work/cluster" --clients 32 --pipeline 8 --warmup 4 --seconds "$seconds" \
                --output json | tr -d '\n')
            "$program" down --data "$work/cluster" >/dev/null
            echo "{\"round\":$round,\"nodes\":$nodes,\"buckets\":$cut,\"durability\":\"$durability\",\"bench\":$line}" |
                tee -a "$root/docs/results/leaders.jsonl"
        done
    done
done
