"""What a comparison consists of: steps drawn from a seed, each sent to both servers.

Domains are small, so that commands meet: a few keys, a few values, and among them those that trip parsers and
arithmetic. Every family of commands is a function that draws the words of one command, mostly well formed; `spoil`
breaks a share of them.
"""

from dataclasses import dataclass

KEYS = [b"a", b"b", b"c", b"list", b"list2", b"num", b"{tag}x", b"{tag}y", b"", b"\x00\xff\r\n", b"key with space"]
VALUES = [
    b"", b"0", b"1", b"-1", b"10", b"+5", b"007", b" 3", b"3 ", b"3.0", b"3.5", b"-2.25e2", b"1e400", b"nan", b"inf",
    b"9223372036854775807", b"-9223372036854775808", b"9223372036854775808", b"x", b"hello", b"\x00\x01\xff",
    b"line\r\nbreak", b"v" * 100, b"w" * 5000,
]
NUMBERS = [
    b"0", b"1", b"-1", b"2", b"3", b"5", b"-3", b"-100", b"100", b"x", b"", b"1.5", b"9223372036854775807",
    b"-9223372036854775808", b"9223372036854775808", b" 1", b"01", b"-0", b"+1",
]
SMALL = [b"0", b"1", b"-1", b"2", b"-2", b"3", b"-4", b"7", b"100", b"-100"]
PATTERNS = [b"*", b"a", b"?", b"[abc]", b"[^a]", b"[a-c]", b"l*", b"*list*", b"\\a", b"{tag}*", b"", b"[a", b"*\xff*", b"k*e", b"[^", b"\\"]
UNKNOWN = [b"NOSUCH", b"GETT", b"nosuchcommand-that-is-quite-long", b"LPUSHY", b"FOO|BAR"]

# Far enough for a run, close enough for every range check. Seconds.
LONG_S = [b"1000", b"5000", b"100000"]
FAR_S = b"33177117420"
PAST_S = [b"0", b"-1", b"-1000"]
WRONG_TIME = [b"x", b"", b"1.5", b"9223372036854775807", b"-9223372036854775808", b"9223372036854775", b"9223372036854776"]


# An expiry below the first has passed after a pause of SETTLE_S; one of the second outlasts the run; between them a key
# could be there for one server and gone for the other.
LIMBO_MS = (10, 1_000_000)
SETTLE_S = 0.03


@dataclass
class Step:
    """One thing to do on both servers."""

    words: list  # The command.
    connection: int = 0  # Which of the client's connections sends it.


class Draw:
    """The seeded source of steps."""

    def __init__(self, rng):
        self.rng = rng

    def pick(self, options):
        return self.rng.choice(options)

    def key(self):
        return self.pick(KEYS)

    def list_key(self):
        return self.pick(KEYS[3:5]) if self.rng.random() < 0.8 else self.key()

    def value(self):
        return self.pick(VALUES)

    def number(self):
        return self.pick(NUMBERS) if self.rng.random() < 0.5 else b"%d" % self.rng.randint(-20, 20)

    def index(self):
        return self.pick(SMALL) if self.rng.random() < 0.9 else self.number()

    def some(self, draw, most=4):
        return [draw() for _ in range(self.rng.randint(1, most))]

    def case(self, name):
        choice = self.rng.random()
        return name if choice < 0.6 else name.lower() if choice < 0.9 else name.capitalize()

    def maybe(self, chance, words):
        return words if self.rng.random() < chance else []

    def spoil(self, words):
        """Breaks a command: too few words, too many, a wrong word, a wrong name."""
        choice = self.rng.randrange(5)
        if choice == 0:
            return words[: self.rng.randint(1, len(words))]
        if choice == 1:
            return words + self.some(self.value, 3)
        if choice == 2 and len(words) > 1:
            words = list(words)
            words[self.rng.randrange(1, len(words))] = self.value()
            return words
        if choice == 3:
            return [self.pick(UNKNOWN)] + words[1:]
        return words + [self.pick([b"NX", b"XX", b"GT", b"LT", b"GET", b"EX", b"COUNT", b"BOGUS"])]


def strings(draw):
    """A command on strings."""
    key, value = draw.key(), draw.value()
    return draw.pick([
        lambda: [b"GET", key],
        lambda: [b"GET", key],
        lambda: [b"SET", key, value],
        lambda: [b"SET", key, value] + set_options(draw),
        lambda: [b"SET", draw.pick(KEYS), draw.number()],
        lambda: [b"SETNX", key, value],
        lambda: [b"SETEX", key, seconds(draw), value],
        lambda: [b"PSETEX", key, milliseconds(draw), value],
        lambda: [b"GETSET", key, value],
        lambda: [b"GETDEL", key],
        lambda: [b"GETEX", key] + getex_options(draw),
        lambda: [b"MGET"] + draw.some(draw.key),
        lambda: [b"MSET"] + pairs(draw),
        lambda: [b"MSETNX"] + pairs(draw),
        lambda: [b"APPEND", key, value],
        lambda: [b"STRLEN", key],
        lambda: [b"GETRANGE", key, draw.index(), draw.index()],
        lambda: [b"SUBSTR", key, draw.index(), draw.index()],
        lambda: [b"SETRANGE", key, draw.pick([b"0", b"1", b"5", b"20", b"-1", b"536870912", b"x"]), value],
    ])()


def counters(draw):
    """A command that counts."""
    key = b"num" if draw.rng.random() < 0.6 else draw.key()
    step = draw.number()
    by_float = draw.pick([b"0.1", b"-0.5", b"1e3", b"3", b"1e-5", b"nan", b"inf", b"-inf", b"1e308", b"x", b"", b" 1", b"0x10"])
    return draw.pick([
        lambda: [b"SET", key, draw.number()],
        lambda: [b"INCR", key],
        lambda: [b"DECR", key],
        lambda: [b"INCRBY", key, step],
        lambda: [b"DECRBY", key, step],
        lambda: [b"INCRBYFLOAT", key, by_float],
    ])()


def keys(draw):
    """A command on keys of any type."""
    key, other = draw.key(), draw.key()
    return draw.pick([
        lambda: [b"DEL"] + draw.some(draw.key),
        lambda: [b"UNLINK"] + draw.some(draw.key),
        lambda: [b"EXISTS"] + draw.some(draw.key),
        lambda: [b"TOUCH"] + draw.some(draw.key),
        lambda: [b"TYPE", key],
        lambda: [b"RENAME", key, other],
        lambda: [b"RENAMENX", key, other],
        lambda: [b"COPY", key, other] + draw.maybe(0.4, [b"REPLACE"]),
        lambda: [b"COPY", key, other, b"DB", draw.pick([b"0", b"x", b"-1", b"9999"])] + draw.maybe(0.5, [b"REPLACE"]),
        lambda: [b"KEYS", draw.pick(PATTERNS)],
        lambda: [b"SCAN", draw.pick([b"0", b"0", b"0", b"0", b"x", b"1y"])] + scan_options(draw),
        lambda: [b"RANDOMKEY"],
        lambda: [b"DBSIZE"],
        lambda: [draw.pick([b"FLUSHDB", b"FLUSHALL"])] + draw.pick([[], [b"ASYNC"], [b"SYNC"], [b"LATER"], [b"SYNC", b"ASYNC"]]),
    ])()


def expiry(draw):
    """A command on the time a key has left."""
    key = draw.key()
    flags = draw.pick([[], [], [], [b"NX"], [b"XX"], [b"GT"], [b"LT"], [b"NX", b"XX"], [b"GT", b"LT"], [b"XX", b"LT"], [b"nx"], [b"QX"]])
    return draw.pick([
        lambda: [b"EXPIRE", key, seconds(draw)] + flags,
        lambda: [b"PEXPIRE", key, milliseconds(draw)] + flags,
        lambda: [b"EXPIREAT", key, draw.pick([FAR_S, b"1", *PAST_S, *WRONG_TIME])] + flags,
        lambda: [b"PEXPIREAT", key, draw.pick([FAR_S + b"123", b"1", *PAST_S, *WRONG_TIME])] + flags,
        lambda: [b"TTL", key],
        lambda: [b"PTTL", key],
        lambda: [b"EXPIRETIME", key],
        lambda: [b"PEXPIRETIME", key],
        lambda: [b"PERSIST", key],
    ])()


def lists(draw):
    """A command on lists that does not block."""
    key, other, value = draw.list_key(), draw.list_key(), draw.value()
    side = draw.pick([b"LEFT", b"RIGHT", b"left", b"UP"])
    end = draw.pick([b"LEFT", b"RIGHT", b"right", b"DOWN"]) if side != b"UP" else b"LEFT"
    element = draw.pick(VALUES[:8])
    return draw.pick([
        lambda: [b"LPUSH", key] + draw.some(lambda: draw.pick(VALUES[:8])),
        lambda: [b"RPUSH", key] + draw.some(lambda: draw.pick(VALUES[:8])),
        lambda: [b"RPUSH", key] + draw.some(draw.value),
        lambda: [b"LPUSHX", key] + draw.some(draw.value),
        lambda: [b"RPUSHX", key] + draw.some(draw.value),
        lambda: [b"LPOP", key] + draw.maybe(0.5, [draw.index()]),
        lambda: [b"RPOP", key] + draw.maybe(0.5, [draw.index()]),
        lambda: [b"LLEN", key],
        lambda: [b"LRANGE", key, draw.index(), draw.index()],
        lambda: [b"LRANGE", key, b"0", b"-1"],
        lambda: [b"LINDEX", key, draw.index()],
        lambda: [b"LSET", key, draw.index(), value],
        lambda: [b"LINSERT", key, draw.pick([b"BEFORE", b"AFTER", b"before", b"BESIDE"]), element, value],
        lambda: [b"LREM", key, draw.index(), element],
        lambda: [b"LTRIM", key, draw.index(), draw.pick([b"-1", b"5", b"-2", draw.index()])],
        lambda: [b"LPOS", key, element] + lpos_options(draw),
        lambda: [b"LMOVE", key, other, side, end],
        lambda: [b"RPOPLPUSH", key, other],
        lambda: lmpop(draw, side),
    ])()


def lmpop(draw, side):
    names = draw.some(draw.list_key, 3)
    count = b"%d" % len(names) if draw.rng.random() < 0.85 else draw.number()
    return [b"LMPOP", count] + names + [side] + draw.maybe(0.5, [b"COUNT", draw.index()])


def lpos_options(draw):
    options = []
    for name in (b"RANK", b"COUNT", b"MAXLEN"):
        options += draw.maybe(0.35, [name, draw.index()])
    return options


def pairs(draw):
    words = []
    for _ in range(draw.rng.randint(1, 3)):
        words += [draw.key(), draw.value()]
    return words


def seconds(draw):
    return draw.pick(LONG_S) if draw.rng.random() < 0.6 else draw.pick(PAST_S + WRONG_TIME)


def milliseconds(draw):
    choice = draw.rng.random()
    if choice < 0.15:
        return b"%d" % draw.rng.randint(1, 3)
    return draw.pick(LONG_S) + b"000" if choice < 0.7 else draw.pick(PAST_S + WRONG_TIME)


def set_options(draw):
    options = []
    if draw.rng.random() < 0.5:
        options += [draw.pick([b"NX", b"XX", b"nx"])]
    if draw.rng.random() < 0.4:
        options += [b"GET"]
    if draw.rng.random() < 0.6:
        options += draw.pick([
            [b"EX", seconds(draw)], [b"PX", milliseconds(draw)], [b"KEEPTTL"], [b"keepttl"], [b"EXAT", FAR_S],
            [b"PXAT", FAR_S + b"123"], [b"EXAT", b"1"], [b"EXAT", draw.pick(WRONG_TIME)], [b"EX"], [b"EX", b"1000", b"PX", b"1"],
            [b"EX", b"1000", b"KEEPTTL"],
        ])
    return options


def getex_options(draw):
    return draw.pick([
        [], [b"PERSIST"], [b"EX", seconds(draw)], [b"PX", milliseconds(draw)], [b"EXAT", FAR_S], [b"PXAT", FAR_S + b"123"],
        [b"EXAT", b"1"], [b"PERSIST", b"EX", b"10"], [b"EX"], [b"KEEPTTL"], [b"XX"],
    ])


def scan_options(draw):
    options = draw.maybe(0.4, [b"MATCH", draw.pick(PATTERNS)])
    options += draw.maybe(0.4, [b"COUNT", draw.pick([b"1", b"3", b"1000", b"0", b"-1", b"x"])])
    return options + draw.maybe(0.3, [b"TYPE", draw.pick([b"string", b"list", b"LIST", b"zset", b"nosuch"])])


FAMILIES = [(strings, 30), (counters, 12), (keys, 14), (expiry, 14), (lists, 30)]
CONTROL = [
    [b"MULTI"], [b"EXEC"], [b"DISCARD"], [b"WATCH", b"a"], [b"UNWATCH"], [b"WATCH"], [b"EXEC", b"x"], [b"MULTI", b"1"],
    [b"DISCARD", b"now"], [b"UNWATCH", b"a"], [b"PING"], [b"PING", b"text"], [b"PING", b"1", b"2"], [b"ECHO", b"x"], [b"ECHO"],
]


def command(draw):
    """One command of any family, sometimes broken."""
    family = draw.rng.choices([family for family, _ in FAMILIES], [weight for _, weight in FAMILIES])[0]
    words = family(draw)
    words[0] = draw.case(words[0])
    return comparable(draw.spoil(words) if draw.rng.random() < 0.08 else words)


def single(draw, connection):
    """A command as a step."""
    return Step(command(draw), connection)


def times(words):
    """Where a command has relative times: pairs of the word's index and the unit's milliseconds."""
    name = words[0].upper()
    if name in (b"SETEX", b"EXPIRE", b"PSETEX", b"PEXPIRE"):
        return [(2, 1 if name.startswith(b"P") else 1000)] if len(words) > 2 else []
    units = {b"EX": 1000, b"PX": 1}
    if name not in (b"SET", b"GETEX"):
        return []
    return [(index + 1, units[word.upper()]) for index, word in enumerate(words[:-1]) if index > 1 and word.upper() in units]


def expiry_ms(word, unit_ms):
    """The time in milliseconds, None if the word is no time."""
    try:
        return int(word) * unit_ms
    except ValueError:
        return None


def expires_soon(words):
    """Whether a command may set an expiry that the pause outlasts, or one in the past."""
    text = [word.upper() for word in words]
    if text[0] == b"SET" and any(word in (b"EXAT", b"PXAT") for word in text[2:]):
        return True
    return any(0 < (expiry_ms(words[index], unit) or 0) < LIMBO_MS[0] for index, unit in times(words))


def comparable(words):
    """The command without times that would run out at some moment of a later comparison, or made-up cursors."""
    if words[0].upper() == b"SCAN" and len(words) > 1 and (expiry_ms(words[1], 1) is not None or b"\0" in words[1]):
        words[1] = b"0"
    for index, unit in times(words):
        if LIMBO_MS[0] <= (expiry_ms(words[index], unit) or 0) < LIMBO_MS[1]:
            words[index] = b"%d" % (LIMBO_MS[1] // unit)
    return words


def transaction(draw):
    """MULTI to EXEC or DISCARD, sometimes after WATCH, sometimes disturbed by the other connection."""
    steps = []
    if draw.rng.random() < 0.5:
        steps.append(Step([b"WATCH"] + draw.some(draw.key)))
        steps += [single(draw, 0) for _ in range(draw.rng.randrange(2))]
        if draw.rng.random() < 0.1:
            steps.append(Step([b"UNWATCH"]))
        steps += [single(draw, 1) for _ in range(draw.rng.randrange(3))]
    steps.append(Step([draw.case(b"MULTI")]))
    for _ in range(draw.rng.randrange(6)):
        steps.append(Step(draw.pick(CONTROL)) if draw.rng.random() < 0.06 else Step(command(draw)))
    steps += [single(draw, 1) for _ in range(draw.rng.randrange(2))]
    steps.append(Step([draw.pick([b"EXEC", b"EXEC", b"EXEC", b"EXEC", b"exec", b"DISCARD"])]))
    return steps


def steps(rng):
    """Steps without end."""
    draw = Draw(rng)
    while True:
        choice = draw.rng.random()
        if choice < 0.08:
            yield from transaction(draw)
        elif choice < 0.10:
            yield Step(draw.pick(CONTROL), draw.rng.randrange(2))
        else:
            yield single(draw, 0 if draw.rng.random() < 0.7 else 1)
