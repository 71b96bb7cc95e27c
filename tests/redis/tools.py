#!/usr/bin/env python3
"""Uses a server with the programs that come with Redis: redis-cli, in a session and line by line, and redis-benchmark.

    tools.py HOST:PORT[,HOST:PORT...]

Each node is asked, whether it leads or not; any word of an error fails the check, and what redis-cli prints is known to the letter.
"""

import os
import pty
import re
import subprocess
import sys

LIMIT_S = 120

# What a person types, and what redis-cli prints below it.
SESSION = [
    ("flushall", "OK"),
    ("ping", "PONG"),
    ("set greeting hello", "OK"),
    ("get greeting", '"hello"'),
    ("get nobody", "(nil)"),
    ("append greeting \" there\"", "(integer) 11"),
    ("incr counter", "(integer) 1"),
    ("mset a 1 b 2", "OK"),
    ("mget a nobody b", '1) "1"\n2) (nil)\n3) "2"'),
    ("rpush queue x y z", "(integer) 3"),
    ("lrange queue 0 -1", '1) "x"\n2) "y"\n3) "z"'),
    ("type queue", "list"),
    ("set brief x ex 100", "OK"),
    ("persist brief", "(integer) 1"),
    ("ttl brief", "(integer) -1"),
    ("multi", "OK"),
    ("incr counter", "QUEUED"),
    ("lpop queue", "QUEUED"),
    ("exec", '1) (integer) 2\n2) "x"'),
    ("del a b nobody", "(integer) 2"),
    ("dbsize", "(integer) 4"),
    # redis-cli asks again over the other protocol.
    ("hello 3", None),
    ("get nobody", "(nil)"),
    ("mget greeting counter", '1) "hello there"\n2) "2"'),
    ("echo goodbye", '"goodbye"'),
]


def sound(text):
    """The text, if nothing in it speaks of an error."""
    bad = re.search(r"(?im)^.*(\berr(or)?\b|warning|could not|unknown|refused|server closed|wrongtype|moved ).*$", text)
    assert bad is None, bad.group(0)[:500]
    return text


def run(program, address, *words, given=""):
    """Runs a program of Redis to its end; what it printed."""
    host, _, port = address.rpartition(":")
    command = [program, "-h", host, "-p", port, *words]
    ended = subprocess.run(command, input=given, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    text = sound(ended.stdout + ended.stderr)
    assert ended.returncode == 0, f"{command} ended with {ended.returncode}: {text[-500:]}"
    return text


def same(name, got, wanted):
    assert got == wanted, f"{name}: {got!r} and not {wanted!r}"


def session(address):
    """At a terminal, where redis-cli also asks which commands there are."""
    host, _, port = address.rpartition(":")
    ours, theirs = pty.openpty()
    # A terminal that can nothing gets plain lines.
    command = ["redis-cli", "-h", host, "-p", port]
    surroundings = {**os.environ, "TERM": "dumb"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=surroundings) as process:
        os.close(theirs)
        os.write(ours, "".join(f"{line}\n" for line, _ in SESSION).encode() + b"quit\n")
        text = b""
        try:
            while piece := os.read(ours, 65536):
                text += piece
        except OSError:
            pass  # It has closed its side.
        os.close(ours)
        same("redis-cli's end", process.wait(timeout=LIMIT_S), 0)
    # What was typed, then an answer behind each prompt.
    prompt = re.compile(re.escape(address) + r"(?:\(TX\))?> ")
    answers = [part.strip() for part in prompt.split(sound(text.decode()).replace("\r\n", "\n"))[1:]]
    same("answers", len(answers), len(SESSION) + 1)
    for (line, wanted), got in zip(SESSION, answers):
        if wanted is not None:
            same(line, got, wanted)


def lines(address):
    """Not at a terminal: plain text, as scripts read it."""
    wanted = {"get greeting": "hello", "get nobody": "", "lrange queue 0 -1": "x\ny\nz", "exists greeting nobody": "1"}
    run("redis-cli", address, given="flushall\nset greeting hello\nrpush queue x y z\n")
    for line, text in wanted.items():
        same(line, run("redis-cli", address, "-e", *line.split()), text + "\n")
    same("all at once", run("redis-cli", address, given="\n".join(wanted)), "".join(f"{text}\n" for text in wanted.values()))
    same("a value from a file", run("redis-cli", address, "-x", "set", "file", given="a\nb"), "OK\n")
    same("--scan", sorted(run("redis-cli", address, "--scan").split()), ["file", "greeting", "queue"])
    assert "Sampled 3 keys" in run("redis-cli", address, "--bigkeys")


def benchmark(address, pipeline):
    words = ["-t", "ping,set,get,incr,mset", "-n", "2000", "-P", str(pipeline), "-q"]
    text = run("redis-benchmark", address, *words)
    told = re.findall(r"(\w+)(?: \(10 keys\))?: [\d.]+ requests per second", text)
    same("tests", told, ["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "MSET"])


def errors_are_noticed(address):
    """These must not pass, or nothing above says anything."""
    run("redis-cli", address, "set", "text", "x")
    for program, words in (("redis-benchmark", ["-n", "20", "-q", "incr", "text"]), ("redis-cli", ["incr", "text"])):
        try:
            text = run(program, address, *words)
        except AssertionError as noticed:
            assert "ERR value is not an integer" in str(noticed), noticed
            continue
        raise AssertionError(f"{program} {words}: an error went unnoticed in {text!r}")


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    passed = failed = 0
    for address in sys.argv[1].split(","):
        checks = [
            ("redis-cli at a terminal", lambda: session(address)),
            ("redis-cli, line by line", lambda: lines(address)),
            ("redis-benchmark -P 1", lambda: benchmark(address, 1)),
            ("redis-benchmark -P 16", lambda: benchmark(address, 16)),
            ("errors are noticed", lambda: errors_are_noticed(address)),
        ]
        for name, check in checks:
            try:
                check()
                passed += 1
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                failed += 1
                print(f"  FAILED {name} at {address}: {error}")
    print(f"redis-cli and redis-benchmark: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
