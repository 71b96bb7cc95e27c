#!/usr/bin/env python3
"""Shows that compare.py can fail: each server here is a real one behind a proxy that lies in one way.

Compared with itself, Redis shows no difference; behind each of the lying proxies it must. Exit code 1 means that the
comparison missed one.
"""

import contextlib
import io
import socketserver
import sys
import threading

import compare
from servers import RedisServer
from wire import Broken, Connection, encode


def wrong_sum(words, reply):
    """Counts one too many where a counter reaches a multiple of seven."""
    return (":", reply[1] + 1) if words[0].upper() == b"INCRBY" and reply[0] == ":" and reply[1] % 7 == 0 else reply


def wrong_words(words, reply):
    """Says the same in other words."""
    return ("-", reply[1].replace(b"wrong number of", b"bad number of")) if reply[0] == "-" else reply


def wrong_type(words, reply):
    """Gives a number as a string."""
    return ("$", b"%d" % reply[1]) if words[0].upper() == b"STRLEN" and reply[0] == ":" else reply


def wrong_null(words, reply):
    """Says that there is nothing in the other of RESP2's two ways."""
    return ("*", None) if words[0].upper() == b"LINDEX" and reply == ("$", None) else reply


def wrong_order(words, reply):
    """Returns a list backwards."""
    return ("*", reply[1][::-1]) if words[0].upper() == b"LRANGE" and reply[0] == "*" else reply


def lost_expiry(words, reply):
    """Forgets how long keys live."""
    return (":", -1) if words[0].upper() == b"PTTL" and reply[0] == ":" and reply[1] > 0 else reply


def deaf_watch(words):
    """Does not listen to WATCH."""
    return [b"PING"] if words[0].upper() == b"WATCH" and len(words) > 1 else words


def missing_key(words, reply):
    """Leaves one key out of every iteration."""
    if words[0].upper() != b"SCAN" or reply[0] != "*":
        return reply
    return ("*", [reply[1][0], ("*", [key for key in reply[1][1][1] if key[1] != b"num"])])


LIES = [wrong_sum, wrong_words, wrong_type, wrong_null, wrong_order, lost_expiry, missing_key]


def frame(reply):
    """A reply as bytes."""
    kind, content = reply
    if kind in "$=!":
        return b"%s-1\r\n" % kind.encode() if content is None else b"%s%d\r\n%s\r\n" % (kind.encode(), len(content), content)
    if isinstance(content, list):
        count = len(content) // 2 if kind == "%" else len(content)
        return b"%s%d\r\n" % (kind.encode(), count) + b"".join(map(frame, content))
    if kind in "*~>":
        return b"*-1\r\n"
    text = {None: b"", True: b"t", False: b"f"}.get(content) if kind in "_#" else content
    return kind.encode() + (text if isinstance(text, bytes) else b"%d" % text) + b"\r\n"


class Liar(socketserver.ThreadingTCPServer):
    """A proxy before a real server that changes what is asked or answered."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, target, ask=lambda words: words, answer=lambda words, reply: reply):
        super().__init__(("127.0.0.1", 0), Session)
        self.target, self.ask, self.answer = target, ask, answer
        self.address = f"127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Session(socketserver.StreamRequestHandler):
    """One client of the proxy."""

    def handle(self):
        upstream = Connection(self.server.target)
        downstream = Connection.__new__(Connection)
        downstream.address, downstream.socket, downstream.reader = "client", self.connection, self.rfile
        with contextlib.suppress(Broken, OSError):
            while True:
                words = [item[1] for item in downstream.receive()[1]]
                upstream.send_raw(encode(self.server.ask(words)))
                reply = upstream.receive()
                if self.server.ask(words) != words:
                    reply = ("+", b"OK")
                self.wfile.write(frame(self.server.answer(words, reply)))
        upstream.close()


def differs(ours, theirs, commands=6000):
    """Whether the comparison finds a difference."""
    sys.argv = ["compare.py", "--ours", ours, "--theirs", theirs, "--commands", str(commands), "--stop-after", "1"]
    with contextlib.redirect_stdout(io.StringIO()) as output:
        code = compare.main()
    if code == 2:
        raise SystemExit(f"a server broke off:\n{output.getvalue()}")
    return code == 1


def main():
    passed = failed = 0
    with RedisServer() as one, RedisServer() as other:
        # The honest proxy shows that it is the lie that is found, and not the proxy.
        cases = [("honest", Liar(one.address), False), ("deaf_watch", Liar(one.address, ask=deaf_watch), True)]
        cases += [(lie.__name__, Liar(one.address, answer=lie), True) for lie in LIES]
        for name, liar, expected in cases:
            good = differs(liar.address, other.address) == expected
            passed, failed = passed + good, failed + (not good)
            print(f"  {name}: {'ok' if good else 'NOT ' + ('found' if expected else 'equal')}")
            liar.shutdown()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
