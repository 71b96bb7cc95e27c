"""Real servers for tests, each on a free port with data in a folder of its own, ended with the block that began it."""

import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

from wire import Broken, Connection


def free_port():
    """A port nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(condition, what, limit_s=60):
    """Polls until the condition holds."""
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"gave up after {limit_s} s: {what}")
        time.sleep(0.05)


def answers(address, *words, reply):
    """Whether a server gives this reply."""
    try:
        connection = Connection(address, timeout_s=5)
    except OSError:
        return False
    try:
        return connection.ask(*words) == reply
    except (Broken, OSError):
        return False
    finally:
        connection.close()


class RedisServer:
    """A redis-server that keeps nothing."""

    def __enter__(self):
        program = shutil.which("redis-server")
        if program is None:
            raise SystemExit("redis-server is missing; ./test installs it on Debian")
        self.folder = tempfile.TemporaryDirectory(prefix="redis-")
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", self.folder.name]
        self.process = subprocess.Popen([program, *options], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        wait_until(lambda: answers(self.address, "PING", reply=("+", b"PONG")), f"redis-server on {self.address}")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=20)
        self.folder.cleanup()


class QuorateCluster:
    """A cluster of nodes on this machine, started by the program's own `up`."""

    def __init__(self, program, nodes=3, buckets=1):
        self.program, self.nodes, self.buckets = pathlib.Path(program).resolve(), nodes, buckets
        if not self.program.exists():
            raise SystemExit(f"{program} is missing: build it with `cargo build --release`")

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="quorate-")
        base = self._free_base()
        self.addresses = [f"127.0.0.1:{base + 10 * index}" for index in range(self.nodes)]
        self.cluster_addresses = [f"127.0.0.1:{base + 1 + 10 * index}" for index in range(self.nodes)]
        self.log = open(pathlib.Path(self.folder.name, "up.log"), "w+", encoding="utf-8")
        self.data = f"{self.folder.name}/data"
        words = ["up", "--nodes", str(self.nodes), "--buckets", str(self.buckets), "--data", self.data, "--base-port", str(base)]
        self.process = subprocess.Popen(
            [self.program, *words], stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT
        )
        try:
            for address in self.addresses:
                wait_until(lambda where=address: self._ready(where), f"node on {address}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def kill_command(self):
        """Kills the node whose number stands for `{}`, as a power cut would."""
        return [str(self.program), "kill", "{}", "--data", self.data]

    def _ready(self, address):
        if self.process.poll() is not None:
            self.log.seek(0)
            raise SystemExit(f"quorate up ended with {self.process.returncode}:\n{self.log.read()[-4000:]}")
        return answers(address, "GET", "ready?", reply=("$", None))

    def _free_base(self):
        # The cluster view is 1, peer and admin doors are 1000 and 2000 above; free now is a good sign, not a promise, so `up` may still fail.
        while True:
            base = free_port()
            wanted = [base + door + 10 * index for door in (0, 1, 1000, 2000) for index in range(self.nodes)]
            if max(wanted) < 65536 and all(port_is_free(port) for port in wanted):
                return base

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        # Nodes outlive an `up` that was killed.
        subprocess.run([self.program, "down", "--data", self.data], stdin=subprocess.DEVNULL, capture_output=True, check=False)
        self.log.close()
        self.folder.cleanup()


def port_is_free(port):
    """Whether one could listen on the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
