#!/usr/bin/env python3
"""Measures gossip_throughput in turns, says how gossip stands beside an all-reduce, and draws the speed-up over slow links.

usage: gossip_report.py [--build BUILD] [--backend local] [--ranks 2,4,8,16] [--sizes 4Ki,256Ki,4Mi] [--network-size 1Mi]
                        [--turns 5] [--only rounds,steps,network] [--record FILE ...] [--json FILE] [--svg FILE]

A turn is one `plumbline bench` of everything; --record takes records that are there instead. What is compared is the median
over the turns of each turn's median, and of each turn's ratio: what stands beside each other was measured in one run.
Model of the links, S bytes, latency L, bandwidth B, n ranks, p peers: a ring's all-reduce takes 2 (n - 1) (L + S / (n B)), a
round of gossip L + p S / B."""
import argparse, json, math, statistics, subprocess, tempfile
from pathlib import Path

PREFIX = "gossip_throughput."
LINKS = {"ethernet": (1e-3, 12.5e6, "100 Mbit/s, 1 ms"), "wide_area": (1e-2, 12.5e6, "100 Mbit/s, 10 ms")}
COLOURS = {"p1": "#1f77b4", "p2": "#d62728", "p3": "#2ca02c"}


def bench(arguments, patterns, sizes, ranks, folder):
    command = [arguments.build / "bin/plumbline", "bench", "--backend", arguments.backend, "--world-size", ranks, "--sizes", sizes,
               "--launches", 1, "--repetitions", 3, "--min-time", arguments.min_time, "--time-limit", 600, "--out", folder]
    for pattern in patterns:
        command += ["--benchmark", PREFIX + pattern]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    return read([Path(folder, "run.jsonl")])


def measure(arguments):
    """One turn."""
    found, wanted = {}, arguments.only.split(",")
    with tempfile.TemporaryDirectory() as folder:
        if "rounds" in wanted:
            found |= bench(arguments, ["rounds.*"], arguments.sizes, arguments.ranks, Path(folder, "rounds"))
        if "steps" in wanted:
            found |= bench(arguments, ["step.*"], arguments.sizes, arguments.ranks, Path(folder, "steps"))
        if "network" in wanted:
            found |= bench(arguments, ["network.*"], arguments.network_size, arguments.ranks, Path(folder, "network"))
    return found


def read(files):
    """{(what, ranks, bytes): (seconds, derived)} of one turn."""
    found = {}
    for file in files:
        for line in file.read_text().splitlines():
            record = json.loads(line)
            if record["type"] != "measurement" or not record["benchmark"].startswith(PREFIX):
                continue
            key = record["benchmark"][len(PREFIX):], int(record["labels"]["world"]), int(record["labels"]["bytes"])
            found[key] = statistics.median(record["samples"]), record["derived"]
    return found


def median(turns, value):
    return statistics.median(value(turn) for turn in turns)


def rows_of(turns, prefix, others):
    """A row for each measurement: its time, and over those of `others` in the same turn."""
    rows = []
    for what, ranks, size in sorted(turns[0], key=lambda key: (key[1], key[2], key[0])):
        if not what.startswith(prefix):
            continue
        key = what, ranks, size
        row = {"what": what[len(prefix):], "ranks": ranks, "bytes": size, "seconds": median(turns, lambda turn: turn[key][0]) / turns[0][key][1].get("steps", 1)}
        row["per_second"] = 1 / row["seconds"]
        row["sent_bytes"] = turns[0][key][1].get("bytes_sent_per_rank", 0)
        for other in others:
            if (prefix + other, ranks, size) in turns[0]:
                row["over_" + other] = median(turns, lambda turn: turn[key][0] / turn[prefix + other, ranks, size][0])
        rows.append(row)
    return rows


def size_text(size):
    return f"{size / (1 << 20):g} MiB" if size >= 1 << 20 else f"{size / 1024:g} KiB"


def show(title, rows, others):
    print(title)
    head = "".join(f"{'/ ' + other:>14}" for other in others)
    print(f"{'':<28}{'ranks':>6}{'parameters':>12}{'time':>14}{'a second':>12}{'sent a rank':>14}{head}")
    for row in rows:
        ratios = "".join(f"{row.get('over_' + other, math.nan):>14.2f}" for other in others)
        print(f"{row['what']:<28}{row['ranks']:>6}{size_text(row['bytes']):>12}{row['seconds'] * 1e6:>11.1f} us"
              f"{row['per_second']:>12.0f}{row['sent_bytes']:>14.0f}{ratios}")


def model(link, ranks, size, peers):
    latency, bandwidth, _ = LINKS[link]
    gossip = latency + min(peers, ranks - 1) * size / bandwidth
    return 2 * (ranks - 1) * (latency + size / ranks / bandwidth) / gossip


def speed_ups(turns):
    rows = []
    for what, ranks, size in sorted(turns[0]):
        if not what.startswith("network.") or what.endswith("all_reduce"):
            continue
        link, kind = what.split(".")[1:]
        other = f"network.{link}.all_reduce", ranks, size
        rows.append({"link": link, "kind": kind, "ranks": ranks, "bytes": size,
                     "measured": median(turns, lambda turn: turn[other][0] / turn[what, ranks, size][0]),
                     "model": model(link, ranks, size, int(kind[1:]))})
    return rows


def show_speed_ups(rows):
    print("speed-up over a ring's all-reduce, over slow links")
    print(f"{'':<12}{'peers':>6}{'ranks':>6}{'parameters':>12}{'measured':>10}{'model':>8}")
    for row in rows:
        print(f"{row['link']:<12}{row['kind'][1:]:>6}{row['ranks']:>6}{size_text(row['bytes']):>12}{row['measured']:>10.2f}{row['model']:>8.2f}")


def svg(rows):
    """A panel a link: speed-up by ranks, measured (dots) and by the model (dashed)."""
    links = [link for link in LINKS if any(row["link"] == link for row in rows)]
    width, height, left, bottom = 460, 340, 60, 290
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width * len(links)}" height="{height}" font-family="sans-serif" font-size="12">',
             "<title>Gossip over slow links: speed-up over an all-reduce</title>", '<rect width="100%" height="100%" fill="white"/>']
    for panel, link in enumerate(links):
        mine = [row for row in rows if row["link"] == link]
        ranks = sorted({row["ranks"] for row in mine})
        most = 1.3 * max(max(row["measured"], row["model"]) for row in mine)
        first, last = math.log2(ranks[0]), math.log2(max(ranks[-1], 2 * ranks[0]))
        x = lambda value: panel * width + left + (math.log2(value) - first) / (last - first) * (width - left - 40)
        y = lambda value: bottom - value / most * (bottom - 40)
        lines.append(f'<text x="{panel * width + left}" y="22" font-size="14">{link.replace("_", " ")}: {LINKS[link][2]}, '
                     f'{size_text(mine[0]["bytes"])}</text>')
        lines.append(f'<text transform="translate({panel * width + 20} {bottom / 2 + 90}) rotate(-90)">times as fast as an all-reduce</text>')
        step = 10 ** math.floor(math.log10(most))
        step = next(part for part in (step / 5, step / 2, step, 2 * step) if most / part <= 8)
        for tick in range(int(most / step) + 1):
            lines.append(f'<line x1="{panel * width + left}" y1="{y(tick * step):.1f}" x2="{panel * width + width - 40}" y2="{y(tick * step):.1f}" stroke="#ddd"/>')
            lines.append(f'<text x="{panel * width + left - 8}" y="{y(tick * step) + 4:.1f}" text-anchor="end">{tick * step:g}</text>')
        for value in ranks:
            lines.append(f'<text x="{x(value):.1f}" y="{bottom + 18}" text-anchor="middle">{value}</text>')
        lines.append(f'<text x="{panel * width + (width + left) / 2 - 20}" y="{bottom + 38}" text-anchor="middle">ranks</text>')
        for place, kind in enumerate(sorted({row["kind"] for row in mine})):
            points = sorted((row["ranks"], row["measured"], row["model"]) for row in mine if row["kind"] == kind)
            dashed = " ".join(f"{x(at):.1f},{y(expected):.1f}" for at, _, expected in points)
            solid = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value, _ in points)
            lines.append(f'<polyline points="{dashed}" fill="none" stroke="{COLOURS[kind]}" stroke-dasharray="6 4"/>')
            lines.append(f'<polyline points="{solid}" fill="none" stroke="{COLOURS[kind]}" stroke-width="2"/>')
            lines += [f'<circle cx="{x(at):.1f}" cy="{y(value):.1f}" r="3.5" fill="{COLOURS[kind]}"/>' for at, value, _ in points]
            lines.append(f'<text x="{panel * width + left + 12}" y="{52 + 16 * place}" fill="{COLOURS[kind]}">'
                         f'{kind[1:]} peer{"s" if kind != "p1" else ""} a round</text>')
        lines.append(f'<text x="{panel * width + left + 12}" y="{52 + 16 * len(COLOURS)}" fill="#555">solid: measured, dashed: model</text>')
    return "\n".join(lines + ["</svg>"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--backend", default="local")
    parser.add_argument("--ranks", default="2,4,8,16")
    parser.add_argument("--sizes", default="4Ki,256Ki,4Mi")
    parser.add_argument("--network-size", default="1Mi")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--min-time", type=float, default=0.05)
    parser.add_argument("--only", default="rounds,steps,network")
    parser.add_argument("--record", type=Path, nargs="+", help="of one turn, in place of measuring")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--svg", type=Path)
    arguments = parser.parse_args()
    turns = [read(arguments.record)] if arguments.record else [measure(arguments) for _ in range(arguments.turns)]
    rounds = rows_of(turns, "rounds.", ("exchange", "exchange_on", "all_reduce"))
    steps = rows_of(turns, "step.", ("base", "all_reduce"))
    network = speed_ups(turns)
    if rounds:
        show("rounds", rounds, ("exchange", "exchange_on", "all_reduce"))
    if steps:
        show("steps", steps, ("base", "all_reduce"))
    if network:
        show_speed_ups(network)
    if arguments.json:
        arguments.json.write_text(json.dumps({"turns": len(turns), "rounds": rounds, "steps": steps, "network": network}, indent=1) + "\n")
    if arguments.svg and network:
        arguments.svg.write_text(svg(network) + "\n")


if __name__ == "__main__":
    main()
