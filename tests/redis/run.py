#!/usr/bin/env python3
"""Starts a real Redis server and a Quorate cluster, runs every comparison and client against them, and ends both.

    run.py target/release/quorate [--seed N] [--commands N] [--nodes N] [--buckets N]

First with a cluster of one bucket, then with one of several, which clients also use through its cluster view.

Ends only what it started. The last lines count what passed and failed, and name what was skipped because something is not there.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys

from servers import QuorateCluster, RedisServer

# Whoever has none of these has seen one client library alone.
OTHER_LIBRARIES = {"node-redis, cluster view", "go-redis, cluster view", "Jedis, cluster view"}

HERE = pathlib.Path(__file__).resolve().parent


def node_command(script, addresses):
    """The smoke test with node-redis, if node and the package are there."""
    if shutil.which("node") is None or not (HERE / "node" / "node_modules" / "redis").is_dir():
        return None
    return ["node", str(HERE / "node" / script), addresses]


def go_command(addresses):
    """The smoke test with go-redis, if run.sh could build it."""
    program = HERE / "go" / "smoke"
    return [str(program), addresses] if program.exists() else None


def java_command(addresses):
    """The smoke test with Jedis, if run.sh could build it."""
    classpath = HERE / "java" / "target" / "classpath"
    if shutil.which("java") is None or not classpath.exists():
        return None
    path = f"{HERE / 'java' / 'target' / 'classes'}:{classpath.read_text(encoding='utf-8').strip()}"
    return ["java", "-cp", path, "Smoke", addresses]


def python(script, *words):
    return [sys.executable, str(HERE / script), *words]


def run(stages):
    """Runs each; returns how many passed, how many failed, and the names of those that were skipped."""
    passed = failed = 0
    skipped = []
    for name, command in stages:
        if command is None:
            print(f"== {name}: SKIPPED, what it needs is not there", flush=True)
            skipped.append(name)
            continue
        print(f"== {name}", flush=True)
        good = subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode == 0
        passed, failed = passed + good, failed + (not good)
        print(f"== {name}: {'ok' if good else 'FAILED'}", flush=True)
    return passed, failed, skipped


def one_bucket(arguments, theirs, compare):
    with QuorateCluster(arguments.program, arguments.nodes) as ours:
        addresses = ",".join(ours.addresses)
        return run([
            ("the comparison can fail", python("selftest.py")),
            ("redis-py with Redis", python("smoke.py", theirs.address)),
            ("redis-py with Quorate", python("smoke.py", addresses)),
            ("redis-cli and redis-benchmark with Redis", python("tools.py", theirs.address)),
            ("redis-cli and redis-benchmark with Quorate", python("tools.py", addresses)),
            ("comparison with Redis", python("compare.py", "--ours", addresses, *compare)),
            ("node-redis with Redis", node_command("smoke.mjs", theirs.address)),
            ("node-redis with Quorate", node_command("smoke.mjs", addresses)),
            ("redis-py, cluster view of one bucket", python("cluster.py", ",".join(ours.cluster_addresses))),
        ])


def several_buckets(arguments, compare):
    count = str(arguments.buckets)
    with QuorateCluster(arguments.program, arguments.nodes, arguments.buckets) as ours:
        addresses, cluster = ",".join(ours.addresses), ",".join(ours.cluster_addresses)
        return run([
            (f"redis-cli and redis-benchmark, {count} buckets", python("tools.py", addresses)),
            (f"comparison with Redis, {count} buckets", python("compare.py", "--ours", addresses, *compare)),
            ("node-redis, cluster view", node_command("cluster.mjs", cluster)),
            ("go-redis, cluster view", go_command(cluster)),
            ("Jedis, cluster view", java_command(cluster)),
            # The last: it kills a node.
            ("redis-py and tools, cluster view", python("cluster.py", cluster, *ours.kill_command())),
        ])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the quorate binary")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--commands", type=int, default=20_000)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--buckets", type=int, default=8, help="of the second cluster (default 8)")
    arguments = parser.parse_args()
    with RedisServer() as theirs:
        def compare(seed, commands):
            return ["--theirs", theirs.address, "--seed", str(seed), "--commands", str(commands)]

        seed, commands = arguments.seed, arguments.commands
        results = [
            one_bucket(arguments, theirs, compare(seed, commands)),
            # Other commands, and fewer: each takes two logs where it touches two buckets.
            several_buckets(arguments, compare(seed + 1, commands // 2)),
        ]
    passed, failed = (sum(result[index] for result in results) for index in (0, 1))
    skipped = [name for result in results for name in result[2]]
    print(f"clients: {passed} passed, {failed} failed, {len(skipped)} skipped")
    for name in skipped:
        print(f"SKIPPED: {name}: what it needs is not there")
    if OTHER_LIBRARIES <= set(skipped):
        print("SKIPPED: EVERY CLIENT LIBRARY BUT redis-py: install nodejs and npm, Go, or Java and Maven")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
