#!/usr/bin/env python3
"""How much longer a process of much memory takes to map a page while it is looked at.

    python3 tests/bench/mapping.py [--mib 4096] [--pairs 5] [--seconds 6]

The process has touched 4 GiB, and maps, touches and unmaps a page over and over: that takes the lock of its memory, which
some of what one can read of it takes as well. In turns nobody looks, taskscope looks once a second with a budget for PSS that
the process is over (so it is skipped), and with one that it is within (so its pages are counted). What counts is the median
of the pairs' 99th percentiles.
"""

import json
import os
import statistics
import subprocess
import sys

import watched

COLUMNS = ["name", "mib", "pairs", "maps", "median_us", "p99_us", "p99_9_us", "longest_us", "p99_over_nobody", "load"]
NOBODY, OVER, WITHIN = "nobody", "taskscope", "taskscope, PSS counted"


class Mapper:
    def __init__(self, mib):
        self.process = subprocess.Popen([sys.executable, os.path.join(watched.HERE, "mapper.py"), str(mib)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def map(self, seconds):
        self.process.stdin.write("%f\n" % seconds)
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def watched_phase(args, mapper, budget_mib):
    """What the target measured while a collector looked, and that it counted pages only within the budget."""
    command = watched.taskscope(args.binary, '[capture]\nshared-memory = "%d MiB"\n' % budget_mib)
    with watched.Watch(command, mapper.process.pid, args.interval) as watch:
        watch.settle()
        phase = mapper.map(args.seconds)
        snapshot = watched.read(watched.stored(watch.out)[-1])
    memory = snapshot["processes"][0]["memory"]
    skipped = any(gap["what"] == "smaps_rollup" and gap["code"] == "skipped" for gap in snapshot.get("gaps", ()))
    within = budget_mib > args.mib
    if ("pss_bytes" in memory) != within or skipped == within or memory["rss_bytes"] < args.mib << 20:
        raise SystemExit("a budget of %d MiB, and: %s, skipped: %s" % (budget_mib, memory, skipped))
    return phase


def row_of(args, name, phases):
    def middle(key):
        return round(statistics.median(phase[key] for phase in phases), 1)
    return {"name": name, "mib": args.mib, "pairs": len(phases), "maps": sum(phase["maps"] for phase in phases),
            "median_us": middle("median_us"), "p99_us": middle("p99_us"), "p99_9_us": middle("p99_9_us"),
            "longest_us": max(phase["longest_us"] for phase in phases), "load": round(os.getloadavg()[0], 1)}


def main():
    parser = watched.arguments(__doc__, interval=1.0)
    parser.add_argument("--mib", type=int, default=4096)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6)
    args = parser.parse_args()
    phases = {NOBODY: [], OVER: [], WITHIN: []}
    with Mapper(args.mib) as mapper:
        for _ in range(args.pairs):
            phases[NOBODY].append(mapper.map(args.seconds))
            phases[OVER].append(watched_phase(args, mapper, args.mib // 2))
            phases[WITHIN].append(watched_phase(args, mapper, args.mib * 2))
    rows = [row_of(args, name, found) for name, found in phases.items()]
    for row in rows[1:]:
        row["p99_over_nobody"] = round(row["p99_us"] / rows[0]["p99_us"], 2)
    watched.table(rows, COLUMNS, args.json)


if __name__ == "__main__":
    main()
