#!/usr/bin/env bash
# Quorate beside others in turns: a shared machine is twice as fast in one minute as in the next, so that figures of
# one long run after another say little. Each round starts each system anew and measures some points; what counts is
# the median of the rounds.
#
#   bench/ratios.sh DIR [ROUNDS [view|exec|copies]]      DIR: see compare.sh; 5 rounds by default
#
# With "view", clients use the cluster view and know who leads, and the others are etcd, ZooKeeper and Redis Cluster, whose
# writes wait for one replica. With "exec", they run transactions over two keys in different buckets, at the leader of the
# first, beside etcd's transactions on the same keys. With "copies", Quorate alone: reads at leaders beside reads that copies
# answer at the nodes that clients happen to be connected to (READONLY), with one bucket and with six. The last two use
# bench/exec, which is built with Go.
#
# Appends a line for each point to docs/results/ratios.jsonl, and one with the medians; prints the latter.
# WARM and DURATION: of each point, by default 1s and 4s. BUCKETS: Quorate's, by default 1 with "view", 2 with "exec".
# AWAKE=all keeps idle processors awake all the time, also for the others; AWAKE=off has Quorate not do it (processors.awake).
set -euo pipefail
usage() { sed -n 2,16p "$0"; exit 2; }
[ $# -ge 1 ] || usage
peers=$(cd "$1" && pwd)
rounds=${2:-5}
door=${3:-standalone}
root=$(cd "$(dirname "$0")/.." && pwd)
window=(-warm "${WARM:-1s}" -dur "${DURATION:-4s}")
case ${AWAKE:=auto} in
    auto) awake= ;;
    off) awake="--set processors.awake=off" ;;
    # As long as the file is open.
    all) awake= && exec {device}>/dev/cpu_dma_latency && printf '\0\0\0\0' >&"$device" ;;
    *) usage ;;
esac
on_view="--client '' --cluster-door 127.0.0.1:\$PORT"
case $door in
    standalone) doors="--client 127.0.0.1:\$PORT --cluster-door '' --topology view" ;;
    view) buckets=${BUCKETS:-1} ;;
    exec) buckets=${BUCKETS:-2} ;;
    copies) doors= ;;
    *) usage ;;
esac
[ -z "${buckets:-}" ] || doors="$on_view --buckets $buckets"
cargo build --release --manifest-path "$root/Cargo.toml" --bin quorate
program=${CARGO_TARGET_DIR:-$root/target}/release/quorate
work=$(mktemp -d)
points=$work/points
finish() {
    status=$?
    "$peers/cluster.sh" stop >/dev/null 2>&1 || true
    [ "$status" = 0 ] || cat "$work/errors" >&2 || true
    rm -rf "$work"
}
trap finish EXIT
# shellcheck source=/dev/null
. "$peers/env.sh"
case $door in
    exec | copies) (cd "$root/bench/exec" && go build -trimpath -o "$work/exec" .) ;;
esac

# The command that starts a node of Quorate with these doors.
start_with() {
    export CUSTOM_START="$program start --data \$DIR $1 $awake --peer 127.0.0.1:\$((PORT + 10000)) --admin '' \
\$([ \$I = 1 ] || echo --join 127.0.0.1:35301)"
}
[ -z "$doors" ] || start_with "$doors"

# up SYSTEM NODES PROTOCOL [OPTION...]: starts it, on disk at each write but for Redis Cluster, with all keys in it
up() {
    mode=fsync
    [ "$1" != rediscluster ] || mode=default
    "$peers/cluster.sh" start "$1" "$2" "$mode" >/dev/null
    where=(-addrs "$(paste -sd, "$RUN/addrs")" -pids "$(paste -sd, "$RUN/pids")")
    loader=(-sys "$3" "${where[@]}" -mode "$mode" -keys 20000 "${@:4}")
    "$BIN/kvload" ready "${loader[@]}" -t0 "$(cat "$RUN/t0")" >/dev/null
    "$BIN/kvload" load "${loader[@]}" -c 64 -v 100 >/dev/null
}

# measure LABEL SYSTEM NODES PROTOCOL [OPTION...]
measure() {
    up "${@:2}"
    for point in "write 1" "write 64" "read 64"; do
        # shellcheck disable=SC2086
        "$BIN/kvload" run "${loader[@]}" -label "$1" $(printf -- '-w %s -c %s' $point) -v 100 "${window[@]}"
    done
    "$peers/cluster.sh" stop >/dev/null
}

# pairs LABEL SYSTEM BUCKETS ROUTE POINT...: points of bench/exec at the cluster that is up
pairs() {
    for point in "${@:5}"; do
        # shellcheck disable=SC2086
        "$work/exec" -sys "$2" -label "$1" -buckets "$3" -route "$4" "${where[@]}" -mode "$mode" -keys 20000 -v 100 \
            $(printf -- '-w %s -c %s' $point) "${window[@]}"
    done
}

round_of() {
    case $door in
        standalone)
            measure quorate custom 3 resp
            measure etcd etcd 3 etcd
            measure redis redis 1 resp
            ;;
        view)
            measure quorate custom 3 respcluster
            measure etcd etcd 3 etcd
            measure zookeeper zk 3 zk -cons sync
            measure redis-cluster rediscluster 6 respcluster -wait 1
            ;;
        exec)
            up custom 3 respcluster
            pairs quorate quorate "$buckets" first "put 1" "put 64" "get 64" "cas 64"
            "$peers/cluster.sh" stop >/dev/null
            up etcd 3 etcd
            pairs etcd etcd "$buckets" first "put 1" "put 64" "get 64" "cas 64"
            "$peers/cluster.sh" stop >/dev/null
            ;;
        copies)
            for count in 1 6; do
                start_with "$on_view --buckets $count"
                up custom 3 respcluster
                for turn in "copies copies" "leaders first"; do
                    # shellcheck disable=SC2086
                    set -- $turn
                    pairs "$1-of-$count" quorate "$count" "$2" "read 1" "read 64" "read 256"
                    [ "$count" = 1 ] || pairs "$1-of-$count" quorate "$count" "$2" "get 64"
                done
                "$peers/cluster.sh" stop >/dev/null
            done
            ;;
    esac
}

for round in $(seq "$rounds"); do
    round_of 2>"$work/errors" | sed "s/^{/{\"round\":$round,/" >>"$points"
    echo "round $round of $rounds" >&2
done
# What the machine can do at best, and how long an idle processor of a virtual machine looks for work before it is halted (waking a halted one takes 30 us).
"$BIN/limits" "$work" 2>/dev/null | sed -n '/ping-pong 100B x batch 1 /p; /4 KiB + fdatasync/p' >"$work/limits" || true
python3 - "$points" "$(git -C "$root" rev-parse --short HEAD)" "$root/docs/results/ratios.jsonl" "$door" "${buckets:-1}" "$work/limits" "$AWAKE" <<'PY'
import collections, json, pathlib, re, statistics, sys
points, commit, results, door, buckets, limits, awake = sys.argv[1:]
lines = [json.loads(line) for line in open(points)]
figures = collections.defaultdict(list)
for line in lines:
    for name in ("ops_s", "p50_us", "server_cpu_s_per_1000"):
        figures[line["label"], line["workload"], line["clients"], name].append(line[name])
median = {key: statistics.median(values) for key, values in figures.items()}
summary = {"kind": "medians", "door": door, "buckets": int(buckets), "commit": commit, "rounds": len({line["round"] for line in lines})}
labels, measured = list({line["label"]: None for line in lines}), {(line["workload"], line["clients"]): None for line in lines}
if door == "copies":
    compared = [(label, label.replace("copies", "leaders")) for label in labels if label.startswith("copies")]
else:
    compared = [("quorate", peer) for peer in sorted(labels) if peer != "quorate"]
for workload, clients in measured:
    for own, peer in compared:
        if (own, workload, clients, "ops_s") not in median:
            continue
        ops, cpu, middle = ((median[own, workload, clients, name], median[peer, workload, clients, name])
                            for name in ("ops_s", "server_cpu_s_per_1000", "p50_us"))
        title = f"{workload} {clients} beside {peer}" if own == "quorate" else f"{workload} {clients}, {own} beside {peer}"
        summary[title] = {
            "ops_s": [round(ops[0]), round(ops[1])], "times": round(ops[0] / ops[1], 2),
            "cpu_s_per_1000": [round(cpu[0], 5), round(cpu[1], 5)], "cpu_part": round(cpu[1] / max(cpu[0], 1e-9), 2),
            "p50_us": middle}
halt_poll = pathlib.Path("/sys/module/haltpoll/parameters/guest_halt_poll_ns")
summary["processors_awake"] = awake
summary["machine"] = {"guest_halt_poll_ns": int(halt_poll.read_text()) if halt_poll.exists() else None}
for line in open(limits):
    name, p50 = re.match(r"(.*?) +n=.* p50=([0-9.]+)us", line).groups()
    summary["machine"][f"{name}, p50 us"] = float(p50)
with open(results, "a") as out:
    for line in lines + [summary]:
        out.write(json.dumps(line) + "\n")
print(json.dumps(summary, indent=1))
PY
