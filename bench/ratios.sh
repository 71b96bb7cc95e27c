#!/usr/bin/env bash
# Quorate beside others in turns: a shared machine is twice as fast in one minute as in the next, so that figures of
# one long run after another say little. Each round starts each system anew and measures three points; what counts is
# the median of the rounds.
#
#   bench/ratios.sh DIR [ROUNDS [view]]      DIR: see compare.sh; 5 rounds by default
#
# With "view", clients use the cluster view of six buckets and know who leads them, and the others are etcd, ZooKeeper and
# Redis Cluster, whose writes wait for one replica.
#
# Appends a line for each point to docs/results/ratios.jsonl, and one with the medians; prints the latter.
set -euo pipefail
[ $# -ge 1 ] || { sed -n 2,12p "$0"; exit 2; }
peers=$(cd "$1" && pwd)
rounds=${2:-5}
door=${3:-standalone}
root=$(cd "$(dirname "$0")/.." && pwd)
cargo build --release --manifest-path "$root/Cargo.toml" --bin quorate
program=${CARGO_TARGET_DIR:-$root/target}/release/quorate
points=$(mktemp)
trap '"$peers/cluster.sh" stop >/dev/null 2>&1 || true; rm -f "$points"' EXIT
# shellcheck source=/dev/null
. "$peers/env.sh"
case $door in
    standalone) doors="--client 127.0.0.1:\$PORT --cluster-door ''" ;;
    view) doors="--client '' --cluster-door 127.0.0.1:\$PORT --buckets 6" ;;
    *) sed -n 2,12p "$0"; exit 2 ;;
esac
export CUSTOM_START="$program start --data \$DIR $doors --peer 127.0.0.1:\$((PORT + 10000)) --admin '' \
\$([ \$I = 1 ] || echo --join 127.0.0.1:35301)"

# measure LABEL SYSTEM NODES PROTOCOL [OPTION...]: on disk at each write, but for Redis Cluster
measure() {
    local mode=fsync
    [ "$2" != rediscluster ] || mode=default
    "$peers/cluster.sh" start "$2" "$3" "$mode" >/dev/null
    local common=(-sys "$4" -addrs "$(paste -sd, "$RUN/addrs")" -pids "$(paste -sd, "$RUN/pids")" -label "$1" -mode "$mode" -keys 20000 "${@:5}")
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
    {
        if [ "$door" = view ]; then
            measure quorate custom 3 respcluster
            measure etcd etcd 3 etcd
            measure zookeeper zk 3 zk -cons sync
            measure redis-cluster rediscluster 6 respcluster -wait 1
        else
            measure quorate custom 3 resp
            measure etcd etcd 3 etcd
            measure redis redis 1 resp
        fi
    } 2>/dev/null |
        sed "s/^{/{\"round\":$round,/" >>"$points"
    echo "round $round of $rounds" >&2
done
python3 - "$points" "$(git -C "$root" rev-parse --short HEAD)" "$root/docs/results/ratios.jsonl" "$door" <<'PY'
import collections, json, statistics, sys
points, commit, results, door = sys.argv[1:]
lines = [json.loads(line) for line in open(points)]
figures = collections.defaultdict(list)
for line in lines:
    for name in ("ops_s", "p50_us", "server_cpu_s_per_1000"):
        figures[line["label"], line["workload"], line["clients"], name].append(line[name])
median = {key: statistics.median(values) for key, values in figures.items()}
peers = sorted({line["label"] for line in lines} - {"quorate"})
summary = {"kind": "medians", "door": door, "commit": commit, "rounds": len({line["round"] for line in lines})}
for workload, clients in (("write", 1), ("write", 64), ("read", 64)):
    for peer in peers:
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
