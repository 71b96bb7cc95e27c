#!/usr/bin/env python3
"""Sends the same drawn commands to two servers and compares every reply, byte for byte.

    compare.py --ours 127.0.0.1:6379,127.0.0.1:6389 --theirs 127.0.0.1:7000 --seed 1 --commands 20000

What may differ is listed, with reasons, in differences.toml. Both servers are EMPTIED first. Exit code 1 means an
unexplained difference, 2 that a server could not be reached or broke off.
"""

import argparse
import collections
import random
import sys
import time

from differences import Differences
from steps import KEYS, SETTLE_S, VALUES, expires_soon, steps
from wire import Broken, Connection, show

CONNECTIONS = 2
HISTORY = 12


class Server:
    """One side: the connections of one client, spread over the nodes of the server."""

    def __init__(self, addresses, protocol):
        nodes = addresses.split(",")
        self.connections = [Connection(nodes[index % len(nodes)]) for index in range(CONNECTIONS)]
        self.observer = Connection(nodes[-1])
        for connection in self.connections:
            reply = connection.ask("HELLO", str(protocol))
            if reply[0] == "-":
                raise Broken(f"{connection.address}: HELLO {protocol} was answered with {show(reply)}")
        self.empty()

    def empty(self):
        """Back to the beginning: no transaction, no watched key, no data."""
        for connection in self.connections:
            connection.ask("DISCARD")
            connection.ask("UNWATCH")
        reply = self.connections[0].ask("FLUSHALL")
        if reply[0] != "+":
            raise Broken(f"{self.connections[0].address}: FLUSHALL was answered with {show(reply)}")

    def touch_all(self):
        """Looks at every key there may be: Redis counts an expired key until somebody looks at it."""
        self.observer.ask("EXISTS", *KEYS, *VALUES)

    def close(self):
        for connection in [*self.connections, self.observer]:
            connection.close()


class Comparison:
    """Two servers, what was said to them and what they answered differently."""

    def __init__(self, ours, theirs, protocol):
        self.sides = (Server(ours, protocol), Server(theirs, protocol))
        self.accepted = Differences()
        self.history = collections.deque(maxlen=HISTORY)
        self.counts = collections.Counter()
        self.errors = 0
        self.found = []
        self.queued = {}
        # For each connection that watches keys, the names of what all connections have done since.
        self.watching = {}

    def take(self, step):
        """Does one step on both sides and judges the replies."""
        words = step.words
        if self._iterates(step):
            replies = [iterate(side.connections[step.connection], words) for side in self.sides]
        else:
            for side in self.sides:
                side.connections[step.connection].send(words)
            replies = [side.connections[step.connection].receive() for side in self.sides]
        self.counts[words[0].upper().decode("latin-1")] += 1
        self.errors += replies[1][0] == "-"
        self.history.append((step.connection, words))
        if self._excused_exec(step, *replies):
            # One server did what the other did not: both begin anew.
            self._begin_anew()
            return
        equal = self._equal(step, *replies)
        done = self.queued.get(step.connection, []) if words[0].upper() == b"EXEC" else [words]
        self._note_transaction(step, replies[1])
        if any(expires_soon(command) for command in done):
            time.sleep(SETTLE_S)
            for side in self.sides:
                side.touch_all()
        if not equal:
            self.found.append((list(self.history), *replies))
            self._begin_anew()

    def _begin_anew(self):
        for side in self.sides:
            side.empty()
        self.queued.clear()
        self.watching.clear()
        self.history.clear()

    def _excused_exec(self, step, ours, theirs):
        """Whether one server alone gave up a transaction, and a listed command since its WATCH excuses that."""
        if step.words[0].upper() != b"EXEC" or None not in (ours[1], theirs[1]) or ours[1] == theirs[1]:
            return False
        kind = "gives_up" if ours[1] is None else "goes_on"
        return self.accepted.use(step.words, kind, self.watching.get(step.connection, set()))

    def _equal(self, step, ours, theirs):
        name = step.words[0].upper()
        if name == b"EXEC" and ours[0] == theirs[0] == "*" and None not in (ours[1], theirs[1]):
            commands = self.queued.get(step.connection, [])
            if len(ours[1]) != len(theirs[1]) or len(commands) != len(theirs[1]):
                return False
            pairs = zip(commands, ours[1], theirs[1])
            return all(self._reply_equal(words, one, other, True) for words, one, other in pairs)
        return self._reply_equal(step.words, ours, theirs, step.connection in self.queued)

    def _reply_equal(self, words, ours, theirs, in_transaction):
        if not self.accepted.equal(words, ours, theirs):
            # Inside a transaction a cursor cannot be followed: the shape is all that can be compared.
            return in_transaction and self.accepted.kind(words, "scan") and ours[0] == theirs[0] == "*"
        if self.accepted.kind(words, "member") and not in_transaction and ours[0] == "$" and ours[1] is not None:
            asked = zip(self.sides, (ours, theirs))
            return all(side.observer.ask("EXISTS", reply[1]) == (":", 1) for side, reply in asked)
        return True

    def _iterates(self, step):
        words = step.words
        outside = step.connection not in self.queued
        return outside and self.accepted.kind(words, "scan") and len(words) > 1 and words[1] == b"0"

    def _note_transaction(self, step, reply):
        name = step.words[0].upper()
        ran = self.queued.get(step.connection, []) if name == b"EXEC" else [step.words]
        for since in self.watching.values():
            since.update(words[0].upper() for words in ran)
        if name == b"WATCH" and reply == ("+", b"OK"):
            self.watching.setdefault(step.connection, set())
        elif name in (b"EXEC", b"DISCARD", b"UNWATCH") and len(step.words) == 1 and reply != ("+", b"QUEUED"):
            self.watching.pop(step.connection, None)
        if name == b"MULTI" and reply == ("+", b"OK"):
            self.queued[step.connection] = []
        elif name in (b"EXEC", b"DISCARD") and step.connection in self.queued:
            if len(step.words) == 1:
                del self.queued[step.connection]
        elif reply == ("+", b"QUEUED"):
            self.queued[step.connection].append(step.words)

    def close(self):
        for side in self.sides:
            side.close()


def iterate(connection, words):
    """A whole iteration with SCAN: everything it returned, once and in order; or the error it began with."""
    found, cursor = set(), b"0"
    for _ in range(10_000):
        connection.send([words[0], cursor, *words[2:]])
        reply = connection.receive()
        if reply[0] == "-":
            return reply
        if reply[0] != "*" or len(reply[1]) != 2 or reply[1][0][0] != "$" or reply[1][1][0] != "*":
            return ("-", b"not a SCAN reply: " + show(reply).encode())
        cursor = reply[1][0][1]
        found.update(reply[1][1][1])
        if cursor == b"0":
            return ("*", sorted(found))
    return ("-", b"SCAN came to no end")


def report(comparison, protocol, shown):
    """Prints counts and the first differences; returns how many there were."""
    total = sum(comparison.counts.values())
    print(f"RESP{protocol}: {total} commands, {comparison.errors} answered with an error by both, "
          f"{len(comparison.found)} unexplained differences")
    print("  commands:", ", ".join(f"{name} {count}" for name, count in comparison.counts.most_common(12)), "...")
    for name, count in sorted(comparison.accepted.used.items()):
        print(f"  accepted: {name} {count} times")
    for history, ours, theirs in comparison.found[:shown]:
        print("  difference after:")
        for connection, words in history:
            print(f"    [{connection}]", " ".join(repr(word)[1:] for word in words)[:400])
        print(f"    ours:   {show(ours)}\n    theirs: {show(theirs)}")
    return len(comparison.found)


def run(arguments, protocol):
    """One pass over one version of the protocol; returns the number of differences."""
    comparison = Comparison(arguments.ours, arguments.theirs, protocol)
    try:
        for count, step in enumerate(steps(random.Random(f"{arguments.seed}/{protocol}"))):
            if count >= arguments.commands or len(comparison.found) >= arguments.stop_after:
                break
            comparison.take(step)
        return report(comparison, protocol, arguments.show)
    except Broken:
        report(comparison, protocol, arguments.show)
        for connection, words in comparison.history:
            print(f"    [{connection}]", " ".join(repr(word)[1:] for word in words)[:400])
        raise
    finally:
        comparison.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True, help="HOST:PORT, or several nodes of one cluster with commas between")
    parser.add_argument("--theirs", required=True, help="HOST:PORT of the server that is right by definition")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--commands", type=int, default=20_000, help="commands a pass (default 20000)")
    parser.add_argument("--protocol", type=int, choices=(2, 3), action="append", help="RESP version (default: both)")
    parser.add_argument("--show", type=int, default=10, help="differences to print in full")
    parser.add_argument("--stop-after", type=int, default=100, help="differences after which a pass ends")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    try:
        differences = sum(run(arguments, protocol) for protocol in arguments.protocol or (2, 3))
    except (Broken, OSError) as error:
        print(f"compare.py: {error}", file=sys.stderr)
        return 2
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
