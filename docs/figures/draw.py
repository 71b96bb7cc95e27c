#!/usr/bin/env python3
"""Tables and pictures of docs/results/sconekv.jsonl: writes tables.md and the SVG files beside this script.

Needs nothing but Python 3. Where a run is there twice, the newest line counts.
"""

import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
LINES = HERE.parent / "results" / "sconekv.jsonl"

# The paper's figures (means of three runs): clients to operations per second and committed percent.
PAPER_A = {16: (1819, 83.5), 32: (2511, 77.2), 64: (3368, 70.7), 128: (4053, 64.2), 256: (5114, 59.6)}
# Nodes to goodput: YCSB in operations per second, TPC-C in transactions per second.
PAPER_SCALE = {
    "ycsb-a-zipfian": {20: 2846, 40: 3692, 80: 4500},
    "ycsb-b-zipfian": {20: 4998, 40: 6402, 80: 8253},
    "tpcc": {20: 584.4, 40: 679.8, 80: 955.8},
}
COLOURS = ["#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad", "#7f8c8d", "#d68910", "#16a085", "#5d4037", "#e67e99", "#34495e"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 340, 70, 150, 34, 44


def rows():
    found = {}
    for line in LINES.read_text().splitlines():
        row = json.loads(line)
        if row.get("experiment") not in ("calibrate", "contention", "patience", "buckets", "mixes", "scale", "tpcc", "durable", "starvation"):
            continue
        # Calibration differs in how far away the clients are.
        found[tuple(row.get(name) for name in ("experiment", "load", "manner", "nodes", "clients", "buckets", "client_ms", "sync_ms", "patience_ms", "clock_error_ms"))] = row
    return list(found.values())


def of(all_rows, experiment):
    return [row for row in all_rows if row["experiment"] == experiment]


def table(header, lines):
    text = "| " + " | ".join(header) + " |\n|" + "---|" * len(header) + "\n"
    return text + "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in lines) + "\n"


def short(number):
    return f"{number:.1f}" if number < 100 else f"{number:.0f}"


def picture(name, title, across, up, series):
    """Lines over a logarithmic axis of doublings; both axes from their data, the upright one from zero."""
    xs = sorted({x for points in series.values() for x, _ in points})
    top = max(y for points in series.values() for _, y in points) * 1.05
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    at_x = lambda x: LEFT + wide * (xs.index(x) / max(len(xs) - 1, 1))
    at_y = lambda y: TOP + high * (1 - y / top)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="18" font-size="13" font-weight="bold">{title}</text>',
        f'<text x="{LEFT + wide / 2}" y="{HEIGHT - 8}" text-anchor="middle">{across}</text>',
        f'<text transform="translate(14 {TOP + high / 2}) rotate(-90)" text-anchor="middle">{up}</text>',
    ]
    for step in range(6):
        y = top * step / 5
        out.append(f'<line x1="{LEFT}" x2="{LEFT + wide}" y1="{at_y(y):.1f}" y2="{at_y(y):.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{at_y(y) + 4:.1f}" text-anchor="end">{y:.0f}</text>')
    for x in xs:
        out.append(f'<text x="{at_x(x):.1f}" y="{TOP + high + 16}" text-anchor="middle">{x}</text>')
    for index, (label, points) in enumerate(series.items()):
        colour = COLOURS[index % len(COLOURS)]
        path = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in sorted(points))
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="3" fill="{colour}"/>' for x, y in points]
        out.append(f'<text x="{LEFT + wide + 10}" y="{TOP + 14 + index * 18}" fill="{colour}">{label}</text>')
    (HERE / name).write_text("\n".join(out + ["</svg>"]) + "\n")


def contention(found):
    lines = [
        [row["manner"], row["clients"], short(row["operations_s"]), f'{row["committed_percent"]:.1f}',
         f'{row["attempts_committed_percent"]:.1f}', short(row["goodput_operations_s"]), short(row["p50_ms"]),
         short(row["p99_ms"]), short(row["longest_wait_ms"]), row["reverts"], short(row["messages_per_commit"]),
         f'{row["entries_per_commit"]:.1f}',
         "{} / {}".format(*PAPER_A[row["clients"]]) if row["manner"] == "paper" else ""]
        for row in found
    ]
    header = ["manner", "clients", "operations/s", "committed %", "of attempts %", "goodput (operations/s)", "p50 ms",
              "p99 ms", "longest ms", "reverts", "messages per commit", "entries per commit", "paper: operations/s / %"]
    by_manner = lambda value: {
        manner: [(row["clients"], row[value]) for row in found if row["manner"] == manner]
        for manner in dict.fromkeys(row["manner"] for row in found)
    }
    shares = {"SconeKV, as printed": [(clients, share) for clients, (_, share) in PAPER_A.items()]}
    picture("contention-committed.svg", "YCSB A, zipfian, 20 nodes: transactions that commit", "clients", "percent",
            shares | by_manner("committed_percent"))
    printed = {"SconeKV, as printed": [(clients, rate * share / 100) for clients, (rate, share) in PAPER_A.items()]}
    picture("contention-goodput.svg", "YCSB A, zipfian, 20 nodes: goodput", "clients", "committed operations/s",
            printed | by_manner("goodput_operations_s"))
    return table(header, lines)


def scale(found, rate):
    lines, series = [], {}
    for row in found:
        key = (row["load"], row["manner"])
        before = series.setdefault(key, [])
        factor = f'{row[rate] / before[-1][1] / 2:.2f}' if before and before[-1][0] * 2 == row["nodes"] else ""
        printed = PAPER_SCALE.get(row["load"], {})
        share = printed.get(row["nodes"], 0) / printed.get(row["nodes"] // 2, 1) / 2
        paper = f"{share:.2f}" if row["nodes"] // 2 in printed and row["nodes"] in printed else ""
        before.append((row["nodes"], row[rate]))
        lines.append([*key, row["nodes"], row["clients"], short(row[rate]), factor, paper, f'{row["committed_percent"]:.1f}',
                      short(row["p50_ms"]), short(row["p99_ms"]), f'{row["buckets_per_commit"]:.2f}',
                      short(row["messages_per_commit"]), short(row["bytes_per_commit"]),
                      f'{row["entries_per_commit"]:.1f}', f'{row["busy_percent_max"]:.0f}'])
    header = ["load", "manner", "nodes", "clients", "goodput/s", "of twofold", "paper", "committed %", "p50 ms", "p99 ms",
              "buckets per commit", "messages per commit", "bytes per commit", "entries per commit", "busiest node %"]
    for load in dict.fromkeys(row["load"] for row in found):
        picture(f"scale-{load}.svg", f"{load}: goodput with clients in proportion", "nodes", "goodput/s",
                {manner: points for (one, manner), points in series.items() if one == load})
    return table(header, lines)


def others(found):
    header = ["load", "manner", "clients", "buckets", "sync ms", "patience ms", "operations/s", "committed %", "goodput (operations/s)", "read ms",
              "commit ms", "p50 ms", "p99 ms", "longest ms", "messages per commit"]
    return table(header, [
        [row["load"], row["manner"], row["clients"], row["buckets"], row["sync_ms"], row.get("patience_ms") or "", short(row["operations_s"]),
         f'{row["committed_percent"]:.1f}', short(row["goodput_operations_s"]), short(row["read_round_ms"]),
         short(row["commit_round_ms"]), short(row["p50_ms"]), short(row["p99_ms"]), short(row["longest_wait_ms"]),
         short(row["messages_per_commit"])]
        for row in found
    ])


def starvation(found):
    """Where all are in each other's way, a turn is the time in which each client commits once: clients by commits a second."""
    lines, series = [], {}
    for row in found:
        turn = row["clients"] * 1e3 / max(row["goodput_s"], 1e-9)
        longs = [short(row[name]) if name in row else "" for name in ("long_p50_ms", "long_p99_ms", "long_longest_ms")]
        lines.append([row["load"], row["manner"], row["clock_error_ms"], row["clients"], short(row["goodput_s"]), f'{row["committed_percent"]:.1f}',
                      f'{row["attempts_committed_percent"]:.1f}', short(row["p50_ms"]), short(row["p99_ms"]), short(row["longest_wait_ms"]),
                      short(turn), f'{row["longest_wait_ms"] / turn:.1f}', row["attempts_most"], row["reverts"], *longs])
        series.setdefault(" ".join([row["load"], row["manner"]] + ([f'{row["clock_error_ms"]} ms'] if row["clock_error_ms"] > 1 else [])), []).append((row["clients"], row["longest_wait_ms"]))
    picture("starvation.svg", "The longest wait of any transaction", "clients", "ms", series)
    return table(["keys", "manner", "clocks wrong by, ms", "clients", "commits/s", "committed %", "of attempts %", "p50 ms", "p99 ms", "longest ms", "a turn, ms",
                  "longest in turns", "most attempts", "reverts", "long: p50 ms", "p99 ms", "longest ms"], lines)


def calibrate(found):
    return table(["one way to the client, ms", "operations/s", "ms per operation", "committed %"],
                 [[row["client_ms"], short(row["operations_s"]), f'{row["ms_per_operation"]:.2f}',
                   f'{row["committed_percent"]:.1f}'] for row in found])


def main():
    all_rows = rows()
    parts = [
        ("Calibration: 16 clients, the paper's manner", "calibrate", calibrate),
        ("YCSB A, zipfian, 20 nodes", "contention", contention),
        ("Other mixes, 256 clients, 20 nodes", "mixes", others),
        ("Aborted after waiting for so long (one-shot, YCSB A, zipfian, 256 clients)", "patience", others),
        ("More buckets on 20 nodes", "buckets", others),
        ("With disks", "durable", others),
        ("Who waits longest", "starvation", starvation),
        ("Larger clusters", "scale", lambda found: scale(found, "goodput_operations_s")),
        ("TPC-C", "tpcc", lambda found: scale(found, "goodput_s")),
    ]
    text = "<!-- Written by draw.py. -->\n\n"
    for title, experiment, make in parts:
        found = of(all_rows, experiment)
        if found:
            text += f"## {title}\n\n" + make(found)
    (HERE / "tables.md").write_text(text)


if __name__ == "__main__":
    main()
