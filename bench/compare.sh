#!/usr/bin/env bash
# Measures Quorate beside the stores that people use in its place, in one run on one machine: three nodes, every write
# on disk at a majority before it is acknowledged, 100-byte values, clients spread over the nodes.
#
#   bench/compare.sh DIR [CONFIG...]      CONFIG: what to measure beside Quorate, by default: redis_fsync etcd zk
#
# DIR holds the comparison of peers: scripts `install.sh` (run it first) and `run.sh`, which measures one system after
# the other with one load generator and appends a JSON line for each point. The lines go to docs/results/peers.jsonl,
# together with one that names the commit and the machine.
set -euo pipefail
[ $# -ge 1 ] || { sed -n 2,10p "$0"; exit 2; }
peers=$(cd "$1" && pwd)
shift
root=$(cd "$(dirname "$0")/.." && pwd)
[ $# -gt 0 ] || set -- redis_fsync etcd zk

cargo build --release --manifest-path "$root/Cargo.toml" --bin quorate
program=${CARGO_TARGET_DIR:-$root/target}/release/quorate
out=$(mktemp -d)

# What the machine itself can do, so that the figures can be judged.
limits() {
    local tool=${PEERS_HOME:-${TMPDIR:-/tmp}/kvpeers}/bin/limits
    [ ! -x "$tool" ] || (cd "$out" && "$tool" "$out") | sed -nE \
        's|^(.*[^ ]) +n=[0-9]+ +p50=([0-9.]+)us p99=([0-9.]+)us.* ([0-9]+)/s.*|{"kind":"limit","what":"\1","p50_us":\2,"p99_us":\3,"per_s":\4}|p'
}

trap 'rm -rf "$out"' EXIT

export OUT=$out CUSTOM_LABEL=quorate CUSTOM_NODES=3 CUSTOM_MODE=fsync CUSTOM_SYS=resp
export CUSTOM_START="$program start --data \$DIR --client 127.0.0.1:\$PORT --cluster-door '' --peer 127.0.0.1:\$((PORT + 10000)) --admin '' --topology view \
\$([ \$I = 1 ] || echo --join 127.0.0.1:35301)"
(cd "$peers" && ./run.sh custom "$@")

results=$root/docs/results/peers.jsonl
mkdir -p "$(dirname "$results")"
{
    printf '{"kind":"run","commit":"%s","date":"%s","cores":%s,"memory_kib":%s,"kernel":"%s","processor":"%s"}\n' \
        "$(git -C "$root" rev-parse --short HEAD)" "$(date -u +%F)" "$(nproc)" \
        "$(awk '/MemTotal/ {print $2}' /proc/meminfo)" "$(uname -r)" \
        "$(awk -F': ' '/model name/ {print $2; exit}' /proc/cpuinfo)"
    limits
    cat "$out/results.jsonl"
} >>"$results"
echo "appended to docs/results/peers.jsonl"
