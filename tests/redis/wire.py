"""The Redis protocol on a plain socket, with nothing interpreted.

redis-py turns replies into convenient Python values and loses what a comparison is about: whether "3" came as an
integer or as a string, whether nothing came as a null array or a null string. Here a reply is a tuple of its type
byte and its content.
"""

import socket


class Broken(Exception):
    """The connection is gone, or what came is not the Redis protocol."""


def encode(words):
    """A command as clients send it: an array of strings."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


class Connection:
    """One connection to one server. Not for use by several threads."""

    def __init__(self, address, timeout_s=20):
        host, _, port = address.rpartition(":")
        self.address = address
        self.socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = self.socket.makefile("rb")

    def close(self):
        self.reader.close()
        self.socket.close()

    def send(self, words):
        """Sends a command; its reply is fetched with `receive`."""
        self.socket.sendall(encode(words))

    def send_raw(self, data):
        """Sends bytes as they are."""
        self.socket.sendall(data)

    def ask(self, *words):
        """Sends a command of strings or bytes and returns its reply."""
        self.send([word.encode() if isinstance(word, str) else word for word in words])
        return self.receive()

    def receive(self):
        """The next reply."""
        line = self._line()
        kind, rest = chr(line[0]), line[1:]
        if kind in "+-,(":
            return (kind, rest)
        if kind == ":":
            return (kind, self._integer(rest))
        if kind == "_":
            return (kind, None)
        if kind == "#":
            return (kind, rest == b"t")
        if kind in "$=!":
            return (kind, self._bulk(rest))
        if kind in "*~>":
            return (kind, self._items(rest, 1))
        if kind == "%":
            return (kind, self._items(rest, 2))
        raise Broken(f"{self.address}: no reply starts with {line[:40]!r}")

    def _line(self):
        try:
            line = self.reader.readline()
        except OSError as error:
            raise Broken(f"{self.address}: {error}") from error
        if not line.endswith(b"\r\n") or len(line) < 3:
            raise Broken(f"{self.address}: the connection was closed" if not line else f"bad line {line!r}")
        return line[:-2]

    def _integer(self, text):
        try:
            return int(text)
        except ValueError as error:
            raise Broken(f"{self.address}: {text!r} is no integer") from error

    def _bulk(self, text):
        size = self._integer(text)
        if size < 0:
            return None
        data = self.reader.read(size + 2)
        if len(data) != size + 2 or data[-2:] != b"\r\n":
            raise Broken(f"{self.address}: a string of {size} bytes ends wrongly")
        return data[:-2]

    def _items(self, text, per_entry):
        count = self._integer(text)
        return None if count < 0 else [self.receive() for _ in range(count * per_entry)]


def show(reply, limit=300):
    """A reply as one short line for people."""
    kind, content = reply
    if isinstance(content, list):
        text = f"{kind}{len(content)}[" + ", ".join(show(item, 60) for item in content) + "]"
    else:
        text = f"{kind}{content!r}"
    return text if len(text) <= limit else text[:limit] + "..."
