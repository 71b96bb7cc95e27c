"""What may differ between two correct servers: the entries of differences.toml, and how each is judged."""

import pathlib
import tomllib

KINDS = ("near", "unordered", "member", "scan", "unlike", "replaced", "gives_up", "goes_on")


class Differences:
    """The committed list of accepted differences. Counts which entries were needed."""

    def __init__(self, path=pathlib.Path(__file__).with_name("differences.toml")):
        with open(path, "rb") as file:
            entries = tomllib.load(file).get("difference", [])
        self.entries = {}
        for entry in entries:
            command, kind = entry["command"].upper().encode(), entry["kind"]
            if kind not in KINDS or len(entry["reason"].split()) < 4:
                raise SystemExit(f"{path}: {command!r} needs a kind of {KINDS} and a reason in words")
            self.entries.setdefault(command, []).append(entry)
        self.used = {}

    def equal(self, words, ours, theirs):
        """Whether the replies to this command mean the same."""
        if ours == theirs:
            return True
        for entry in self.entries.get(words[0].upper(), []) + self.entries.get(b"*", []):
            if judge(entry, words, ours, theirs):
                return self._count(entry)
        return False

    def use(self, words, kind, names):
        """Counts on an entry of a kind that the driver judges itself, if one of these commands excuses it."""
        entries = (entry for entry in self.entries.get(words[0].upper(), []) if entry["kind"] == kind)
        return any(self._count(entry) for entry in entries if names & {name.encode() for name in entry["after"]})

    def _count(self, entry):
        name = f"{entry['command']} ({entry['kind']})"
        self.used[name] = self.used.get(name, 0) + 1
        return True

    def kind(self, words, kind):
        """Whether the command has an entry of this kind."""
        return any(entry["kind"] == kind for entry in self.entries.get(words[0].upper(), []))


def judge(entry, words, ours, theirs):
    """Whether one entry explains a difference."""
    if entry["kind"] == "near":
        return near(ours, theirs, entry["within"])
    if entry["kind"] == "unordered":
        return sorted_items(ours) is not None and sorted_items(ours) == sorted_items(theirs)
    if entry["kind"] == "member":
        # Any string for any string; the driver has checked that each is a key of its server.
        return ours[0] == theirs[0] == "$" and None not in (ours[1], theirs[1])
    if entry["kind"] == "replaced":
        if not ours[0] == theirs[0] == "-":
            return False
        # Some messages of Redis end where a repeated word has a zero byte.
        return theirs[1].decode("utf-8", "replace").encode() in (ours[1], ours[1].split(b"\0")[0])
    if entry["kind"] == "unlike":
        # A refusal of our own: named word for word where it starts, and only for the arguments named.
        args = [word.decode("latin-1").upper() for word in words[1:]]
        needs = [word.upper() for word in entry.get("arguments", [])]
        return all(need in args for need in needs) and starts(ours, entry["ours"]) and starts(theirs, entry["theirs"])
    return False


def near(ours, theirs, within):
    both = ours[0] == theirs[0] == ":"
    return both and (ours[1] < 0) == (theirs[1] < 0) and abs(ours[1] - theirs[1]) <= within


def sorted_items(reply):
    return sorted(reply[1]) if reply[0] in "*~" and reply[1] is not None else None


def starts(reply, text):
    return described(reply).startswith(text)


def described(reply):
    """A plain reply as text: its type byte and its content."""
    content = reply[1]
    if isinstance(content, bytes):
        content = content.decode("latin-1")
    return f"{reply[0]}{content}"
