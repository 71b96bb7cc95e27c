#!/usr/bin/env python3
"""Starts a real Redis server and a Quorate cluster, runs every comparison and client against them, and ends both.

    run.py target/release/quorate [--seed N] [--commands N] [--nodes N]

Ends only what it started. The last line counts what passed and failed.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys

from servers import QuorateCluster, RedisServer

HERE = pathlib.Path(__file__).resolve().parent


def node_command(addresses):
    """The smoke test with node-redis, if node and the package are there."""
    if shutil.which("node") is None or not (HERE / "node" / "node_modules" / "redis").is_dir():
        return None
    return ["node", str(HERE / "node" / "smoke.mjs"), addresses]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the quorate binary")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--commands", type=int, default=20_000)
    parser.add_argument("--nodes", type=int, default=3)
    arguments = parser.parse_args()
    passed = failed = 0
    with RedisServer() as theirs, QuorateCluster(arguments.program, arguments.nodes) as ours:
        addresses = ",".join(ours.addresses)
        python = lambda script, *words: [sys.executable, str(HERE / script), *words]
        compare = ["--theirs", theirs.address, "--seed", str(arguments.seed), "--commands", str(arguments.commands)]
        stages = [
            ("the comparison can fail", python("selftest.py")),
            ("redis-py with Redis", python("smoke.py", theirs.address)),
            ("redis-py with Quorate", python("smoke.py", addresses)),
            ("comparison with Redis", python("compare.py", "--ours", addresses, *compare)),
            ("node-redis with Redis", node_command(theirs.address)),
            ("node-redis with Quorate", node_command(addresses)),
        ]
        for name, command in stages:
            if command is None:
                print(f"== {name}: skipped, node or its package `redis` is not there", flush=True)
                continue
            print(f"== {name}", flush=True)
            good = subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode == 0
            passed, failed = passed + good, failed + (not good)
            print(f"== {name}: {'ok' if good else 'FAILED'}", flush=True)
    print(f"clients: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
