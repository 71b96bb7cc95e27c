#!/usr/bin/env bash
# Where the processor time of writes goes: three nodes, durability "disk", 64 clients, 100-byte values, sampled with Linux's perf. Appends a
# line to docs/results/profile.jsonl with the share of each kind of work in all three nodes together, in percent, and prints it.
#
#   bench/profile.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
command -v perf >/dev/null || { echo "perf is missing: install linux-perf" >&2; exit 2; }
cargo build --release --manifest-path "$root/Cargo.toml" --bin quorate
program=${CARGO_TARGET_DIR:-$root/target}/release/quorate
dir=$(mktemp -d)
trap '"$program" down --data "$dir/data" >/dev/null 2>&1 || true; rm -rf "$dir"' EXIT
"$program" up --nodes 3 --detach --data "$dir/data" --base-port 26379 >/dev/null
processes=$("$program" status --data "$dir/data" --output json | python3 -c 'import json, sys; print(*(node["pid"] for node in json.load(sys.stdin)["nodes"]), sep=",")')
"$program" bench --data "$dir/data" --keys 20000 --value-bytes 100 --clients 64 set --seconds 9 >/dev/null &
load=$!
sleep 3
perf record -q -F 1999 -g -o "$dir/samples" -p "$processes" -- sleep 5
wait "$load"
perf script -i "$dir/samples" -F ip,sym 2>/dev/null | python3 -c '
import collections, json, re, sys
CALLS = {"pwrite64": "log to disk", "pwritev2": "log to disk", "fdatasync": "log to disk", "sendto": "sending", "writev": "sending",
         "sendmsg": "sending", "recvfrom": "receiving", "epoll_wait": "waiting for events"}
OWN = {"quorate_shard": "applying", "quorate_values": "applying", "quorate_engine": "store and log", "lsm_tree": "store and log",
       "quorate_replog": "replicated log", "quorate_node": "node", "quorate_host": "loop and connections", "quorate_resp": "RESP",
       "postcard": "encoding", "crc32": "checksums", "mi_": "allocator", "bytes::": "shared bytes", "mem": "memory copied and compared",
       "hashbrown": "hash maps", "BTreeMap": "ordered maps"}
shares, samples = collections.Counter(), 0
for stack in sys.stdin.read().split("\n\n"):
    symbols = [line.split(None, 1)[1] for line in stack.splitlines() if len(line.split(None, 1)) > 1]
    if not symbols:
        continue
    samples += 1
    call = next((found[1] for found in (re.search(r"__x64_sys_(\w+)", symbol) for symbol in symbols) if found), None)
    if call:
        shares[CALLS.get(call, "other system calls")] += 1
    elif any("do_syscall_64" in symbol or "entry_SYSCALL" in symbol for symbol in symbols):
        shares["other system calls"] += 1
    elif any("asm_" in symbol for symbol in symbols):
        shares["interrupts and page faults"] += 1
    else:
        shares[next((name for key, name in OWN.items() if key in symbols[0]), "rest of the program")] += 1
percent = {name: round(100 * count / samples, 1) for name, count in shares.most_common()}
print(json.dumps({"what": "profile of writes", "commit": sys.argv[1], "clients": 64, "value_bytes": 100, "samples": samples, "percent": percent}))
' "$(git -C "$root" rev-parse --short HEAD)" | tee -a "$root/docs/results/profile.jsonl"
