#!/usr/bin/env bash
# Quorate beside others in turns: a shared machine is twice as fast in one minute as in the next, so that figures of
# one long run after another say little. Each round starts each system anew and measures three points; what counts is
# the median of the rounds.
#
#   bench/ratios.sh DIR [ROUNDS]      DIR: see compare.sh; 5 rounds by default
#
# Appends a line for each point to docs/results/ratios.jsonl, and one with the medians; prints the latter.
set -euo pipefail
[ $# -ge 1 ] || { sed -n 2,9p "$0"; exit 2; }
peers=$(cd "$1" && pwd)
rounds=${2:-5}
root=$(cd "$(dirname "$0")/.." && pwd)
cargo build --release --manifest-path "$root/Cargo.toml" --bin quorate
program=${CARGO_TARGET_DIR:-$root/target}/release/quorate
points=$(mktemp)
trap '"$peers/cluster.sh" stop >/dev/null 2>&1 || true; rm -f "$points"' EXIT
# shellcheck source=/dev/null
. "$peers/env.sh"
export CUSTOM_START="$program start --data \$DIR --client 127.0.0.1:\$PORT --cluster-door '' --peer 127.0.0.1:\$((PORT + 10000)) --admin '' \
\$([ \$I = 1 ] || echo --join 127.0.0.1:35301)"

# measure LABEL SYSTEM NODES PROTOCOL
measure() {
    "$peers/cluster.sh" start "$2" "$3" fsync >/dev/null
    local common=(-sys "$4" -addrs "$(paste -sd, "$RUN/addrs")" -pids "$(paste -sd, "$RUN/pids")" -label "$1" -mode fsync -keys 20000)
    "$BIN/kvload" ready "${common[@]}" -t0 "$(cat "$RUN/t0")" >/dev/null
    "$BIN/kvload" load "${common[@]}" -c 64 -v 100 >/dev/null
    for point in "write 1" "write 64" "read 64"; do
        # shellcheck disable=SC2086
        set -- $point
        "$BIN/kvload" run "${common[@]}" -w "$1" -c "$2" -v 100 -warm 1s -dur 4s
    done
    "$peers/cluster.sh" stop >/dev/null
}

for round in $(seq "$rounds"); do
    { measure quorate custom 3 resp; measure etcd etcd 3 etcd; measure redis redis 1 resp; } 2>/dev/null |
        sed "s/^{/{\"round\":$round,/" >>"$points"
    echo "round $round of $rounds" >&2
done
python3 - "$points" "$(git -C "$root" rev-parse --short HEAD)" "$root/docs/results/ratios.jsonl" <<'PY'
import collections, json, statistics, sys
points, commit, results = sys.argv[1:]
lines = [json.loads(line) for line in open(points)]
figures = collections.defaultdict(list)
for line in lines:
    for name in ("ops_s", "p50_us", "server_cpu_s_per_1000"):
        figures[line["label"], line["workload"], line["clients"], name].append(line[name])
median = {key: statistics.median(values) for key, values in figures.items()}
summary = {"kind": "medians", "commit": commit, "rounds": len({line["round"] for line in lines})}
for workload, clients in (("write", 1), ("write", 64), ("read", 64)):
    for peer in ("etcd", "redis"):
        ops, cpu = ((median["quorate", workload, clients, name], median[peer, workload, clients, name])
                    for name in ("ops_s", "server_cpu_s_per_1000"))
        summary[f"{workload} {clients} beside {peer}"] = {
            "ops_s": [round(ops[0]), round(ops[1])], "times": round(ops[0] / ops[1], 2),
            "cpu_s_per_1000": [round(cpu[0], 5), round(cpu[1], 5)], "cpu_part": round(cpu[1] / cpu[0], 2)}
with open(results, "a") as out:
    for line in lines + [summary]:
        out.write(json.dumps(line) + "\n")
print(json.dumps(summary, indent=1))
PY
