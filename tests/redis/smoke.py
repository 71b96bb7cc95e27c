#!/usr/bin/env python3
"""Uses a server the way applications do: redis-py's own API over strings, keys, expiry, transactions, lists.

    smoke.py HOST:PORT[,HOST:PORT...]

Each check gets connections to different nodes where several are given: what one node was told, another must know.
"""

import sys

import redis


def strings(one, other):
    assert one.set("greeting", "hello") is True
    assert other.get("greeting") == b"hello"
    assert one.set("greeting", "again", nx=True) is None
    assert one.set("greeting", "again", get=True) == b"hello"
    assert other.append("greeting", "!") == 6
    assert other.getrange("greeting", 0, 4) == b"again" and one.strlen("greeting") == 6
    assert one.setrange("greeting", 5, "?") == 6 and other.getdel("greeting") == b"again?"
    assert one.get("greeting") is None
    assert one.mset({"a": "1", "b": b"\x00\xff\r\n"}) is True
    assert other.mget("a", "none", "b") == [b"1", None, b"\x00\xff\r\n"]
    assert one.msetnx({"a": "2", "c": "3"}) is False and other.exists("c") == 0


def counters(one, other):
    assert one.incr("counter") == 1 and other.incr("counter", 9) == 10 and one.decr("counter", 3) == 7
    assert abs(other.incrbyfloat("ratio", 0.5) - 0.5) < 1e-12
    one.set("text", "x")
    try:
        other.incr("text")
        raise AssertionError("a word was counted")
    except redis.ResponseError as error:
        assert "not an integer" in str(error)


def keys(one, other):
    one.mset({f"key:{index}": index for index in range(30)})
    assert sorted(other.scan_iter(match="key:*", count=7)) == sorted(b"key:%d" % index for index in range(30))
    assert len(other.keys("key:?")) == 10 and other.dbsize() == 30
    assert one.rename("key:1", "moved") is True and other.type("moved") == b"string"
    assert one.copy("moved", "copied") is True and other.get("copied") == b"1"
    assert one.delete("key:2", "key:3", "nothing") == 2 and other.unlink("key:4") == 1
    assert other.exists("key:2", "key:5", "key:5") == 2 and other.randomkey() is not None


def expiry(one, other):
    one.set("brief", "x", ex=100)
    assert 0 < other.ttl("brief") <= 100 and 0 < other.pttl("brief") <= 100_000
    assert one.persist("brief") is True and other.ttl("brief") == -1 and other.ttl("nothing") == -2
    assert one.expire("brief", 50) is True and other.expire("brief", 10, gt=True) is False
    assert one.expireat("brief", 4_102_444_800) is True and other.expiretime("brief") == 4_102_444_800
    assert one.getex("brief", persist=True) == b"x" and other.ttl("brief") == -1
    assert one.pexpire("brief", -1) is True and other.get("brief") is None


def lists(one, other):
    assert one.rpush("queue", "a", "b", "c") == 3 and other.lpush("queue", "z") == 4
    assert one.lrange("queue", 0, -1) == [b"z", b"a", b"b", b"c"] and other.lindex("queue", -1) == b"c"
    assert one.linsert("queue", "BEFORE", "b", "ab") == 5 and other.lrem("queue", 1, "z") == 1
    assert one.lmove("queue", "done", "LEFT", "RIGHT") == b"a" and other.lrange("done", 0, -1) == [b"a"]
    assert one.lpos("queue", "b") == 1 and other.rpop("queue", 2) == [b"c", b"b"] and one.llen("queue") == 1
    assert one.lset("queue", 0, "q") is True and other.ltrim("queue", 1, 0) is True and one.exists("queue") == 0


def pipelines(one, other):
    pipe = one.pipeline(transaction=False)
    for index in range(500):
        pipe.set(f"p{index}", index).get(f"p{index}")
    replies = pipe.execute()
    assert replies == [value for index in range(500) for value in (True, b"%d" % index)]
    assert other.get("p499") == b"499"


def transactions(one, other):
    one.mset({"from": 10, "to": 0})
    with one.pipeline() as pipe:
        replies = pipe.decrby("from", 3).incrby("to", 3).execute()
    assert replies == [7, 3] and other.mget("from", "to") == [b"7", b"3"]
    with one.pipeline() as pipe:
        pipe.watch("from")
        other.set("from", 100)
        pipe.multi()
        pipe.set("from", 0)
        try:
            pipe.execute()
            raise AssertionError("a transaction ignored a change of what it watched")
        except redis.WatchError:
            pass
    assert other.get("from") == b"100"
    assert one.transaction(lambda pipe: pipe.get("from") and (pipe.multi(), pipe.incr("from")), "from") == [101]


def errors(one, other):
    one.rpush("list", "x")
    for call in (lambda: other.get("list"), lambda: other.execute_command("GET"), lambda: other.execute_command("NOSUCH", "x")):
        try:
            call()
            raise AssertionError("nonsense was accepted")
        except redis.ResponseError:
            pass
    assert other.ping() is True


CHECKS = [strings, counters, keys, expiry, lists, pipelines, transactions, errors]


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    nodes = sys.argv[1].split(",")
    failed = 0
    for protocol in (2, 3):
        clients = []
        for address in (nodes[0], nodes[-1]):
            host, _, port = address.rpartition(":")
            clients.append(redis.Redis(host=host, port=int(port), protocol=protocol, client_name="smoke", socket_timeout=20))
        for check in CHECKS:
            clients[0].flushall()
            try:
                check(*clients)
            except (AssertionError, redis.RedisError, TypeError) as error:
                failed += 1
                line = error.__traceback__.tb_next.tb_lineno if error.__traceback__.tb_next else error.__traceback__.tb_lineno
                print(f"  FAILED {check.__name__} over RESP{protocol}, line {line}: {error!r}")
        for client in clients:
            client.close()
    print(f"redis-py {redis.__version__}: {2 * len(CHECKS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
