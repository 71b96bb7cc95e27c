#!/usr/bin/env python3
"""Uses the cluster view the way applications do: redis-py's RedisCluster, redis-cli -c and redis-benchmark --cluster.

    cluster.py HOST:PORT[,HOST:PORT...] [KILL COMMAND...]

The addresses are those of the doors for Redis Cluster clients. With a command, `{}` in it is replaced by the number of the
node that leads most slots, and the command must kill that node: clients then have to find another one.
"""

import subprocess
import sys
import time

import redis
from redis.cluster import ClusterNode, LoadBalancingStrategy, RedisCluster

KEYS = 300


def connect(addresses, protocol=2, **options):
    nodes = [ClusterNode(host, int(port)) for host, _, port in (address.rpartition(":") for address in addresses)]
    return RedisCluster(startup_nodes=nodes, protocol=protocol, socket_timeout=20, **options)


def single_keys(one):
    for index in range(KEYS):
        assert one.set(f"key:{index}", index) is True
    assert [one.get(f"key:{index}") for index in range(KEYS)] == [b"%d" % index for index in range(KEYS)]
    assert one.incr("key:7", 3) == 10 and one.rpush("queue", "a", "b") == 2 and one.lpop("queue") == b"a"


def whole_keyspace(one):
    # redis-py's own dbsize() asks one node alone, with Redis as well.
    sizes = [one.dbsize(target_nodes=node) for node in one.get_primaries()]
    assert sum(sizes) == KEYS + 1, sizes
    assert sorted(one.scan_iter(match="key:*", count=50)) == sorted(b"key:%d" % index for index in range(KEYS))
    assert sum(len(one.keys("key:1*", target_nodes=node)) for node in one.get_primaries()) == 111
    slot = one.keyslot("key:7")
    told = one.cluster_get_keys_in_slot(slot, 100)
    assert one.cluster_countkeysinslot(slot) == len(told) and {"key:7", b"key:7"} & set(told), told


def pipelines(one):
    pipe = one.pipeline()
    for index in range(KEYS):
        pipe.set(f"p{index}", index).get(f"p{index}")
    assert pipe.execute() == [value for index in range(KEYS) for value in (True, b"%d" % index)]


def hash_tags(one):
    assert one.mset({"{user}a": 1, "{user}b": 2}) is True and one.mget("{user}a", "{user}b") == [b"1", b"2"]
    assert one.delete("{user}a", "{user}b", "{user}c") == 2


def several_slots(one):
    """Clients refuse these on their own side; what arrives nevertheless is served."""
    node = one.get_primaries()[0]
    assert one.execute_command("MSET", "x1", "1", "x2", "2", "x3", "3", target_nodes=node) in (b"OK", True)
    assert one.execute_command("MGET", "x1", "x2", "x3", target_nodes=node) == [b"1", b"2", b"3"]
    assert one.mget_nonatomic("x1", "x2", "none") == [b"1", b"2", None]
    with one.get_redis_connection(node).pipeline(transaction=True) as pipe:
        assert pipe.set("x1", 5).incr("x2").execute() == [True, 3]


def map_of_the_cluster(one):
    infos = [node.redis_connection.info("cluster") for node in one.get_nodes()]
    assert all(info["cluster_enabled"] == 1 for info in infos)
    slots = one.cluster_slots()
    covered = sorted(span for span in slots)
    assert covered[0][0] == 0 and covered[-1][1] == 16383
    assert all(last + 1 == first for (_, last), (first, _) in zip(covered, covered[1:]))
    assert one.cluster_info()["cluster_state"] == "ok"
    ids = {node["node_id"] for node in one.cluster_nodes().values()}
    assert len(ids) == len(one.get_nodes()) and all(len(name) == 40 for name in ids)
    assert one.cluster_myid(one.get_primaries()[0]).decode() in ids
    assert len(one.cluster_shards()) == len({tuple(span["primary"][:2]) for span in slots.values()})


def copies_answer_reads(addresses):
    """READONLY: any node answers reads, as fresh as the primary; without it, it sends clients there."""
    with connect(addresses) as one:
        primary = one.get_node_from_key("key:0").name
    host, _, port = next(address for address in addresses if address != primary).rpartition(":")
    with redis.Redis(host=host, port=int(port), socket_timeout=20) as node:
        moved = 0
        for index in range(30):
            try:
                node.get(f"key:{index}")
            except redis.exceptions.MovedError:
                moved += 1
        assert 0 < moved, "no key is led elsewhere"
        assert node.execute_command("READONLY") in (b"OK", True)
        assert all(node.get(f"key:{index}") is not None for index in range(30))
        with connect(addresses) as one:
            for number in range(200):
                one.set(f"key:{number % 30}", number)
                assert int(node.get(f"key:{number % 30}")) == number, "older than what was acknowledged"
        values = node.mget([f"key:{index}" for index in range(30)])
        assert [int(value) for value in values] == [*range(180, 200), *range(170, 180)]
        assert node.execute_command("READWRITE") in (b"OK", True)
    # redis-py itself, reading from replicas.
    with connect(addresses, load_balancing_strategy=LoadBalancingStrategy.ROUND_ROBIN) as reader:
        assert all(reader.get(f"key:{index}") is not None for index in range(30))


def run(command, expected):
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    text = ended.stdout + ended.stderr
    assert ended.returncode == 0 and expected in text and "MOVED" not in text, f"{command}: {text[-2000:]}"


def tools(addresses):
    host, _, port = addresses[0].rpartition(":")
    for index in range(10):
        run(["redis-cli", "-c", "-h", host, "-p", port, "set", f"cli:{index}", "x"], "OK")
    run(["redis-cli", "-h", host, "-p", port, "--cluster", "check", f"{host}:{port}"], "All 16384 slots covered")
    with connect(addresses) as one:
        primaries = {tuple(span["primary"][:2]) for span in one.cluster_slots().values()}
    if len(primaries) == 1:
        # redis-benchmark refuses a cluster with a single primary.
        return
    words = ["-t", "set,get", "-n", "2000", "-c", "8", "-q"]
    run(["redis-benchmark", "--cluster", "-h", host, "-p", port, *words], "requests per second")


def failover(addresses, kill):
    with connect(addresses) as one:
        led = {}
        for (first, last), nodes in one.cluster_slots().items():
            address = "%s:%d" % tuple(nodes["primary"][:2])
            led[address] = led.get(address, 0) + last - first + 1
        victim = max(led, key=led.get)
        number = str(addresses.index(victim) + 1)
        subprocess.run([word.replace("{}", number) for word in kill], stdin=subprocess.DEVNULL, check=True)
        for index in range(KEYS):
            # The library retries by itself for a while; an application would go on.
            end = time.monotonic() + 30
            while True:
                try:
                    assert one.set(f"after:{index}", index) is True and one.get(f"after:{index}") == b"%d" % index
                    break
                except redis.RedisError as error:
                    assert time.monotonic() < end, f"no key {index} after 30 s: {error!r}"
                    time.sleep(0.05)
        assert victim not in {"%s:%d" % tuple(nodes["primary"][:2]) for nodes in one.cluster_slots().values()}


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    addresses, kill = sys.argv[1].split(","), sys.argv[2:]
    checks = []
    for protocol in (2, 3):
        for check in (single_keys, whole_keyspace, pipelines, hash_tags, several_slots, map_of_the_cluster):
            checks.append((f"{check.__name__} over RESP{protocol}", protocol, check))
    failed = 0

    def attempt(name, call):
        nonlocal failed
        try:
            call()
        except (AssertionError, redis.RedisError, TypeError, subprocess.SubprocessError) as error:
            failed += 1
            frame = error.__traceback__
            while frame.tb_next and frame.tb_next.tb_frame.f_code.co_filename == __file__:
                frame = frame.tb_next
            print(f"  FAILED {name}, line {frame.tb_lineno}: {error!r}")

    for protocol in (2, 3):
        with connect(addresses, protocol) as one:
            one.flushall()
            for name, of, check in checks:
                if of == protocol:
                    attempt(name, lambda: check(one))
    attempt("copies answer reads", lambda: copies_answer_reads(addresses))
    attempt("redis-cli and redis-benchmark", lambda: tools(addresses))
    count = len(checks) + 2
    if kill:
        attempt("failover", lambda: failover(addresses, kill))
        count += 1
    print(f"redis-py {redis.__version__}, cluster: {count - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
