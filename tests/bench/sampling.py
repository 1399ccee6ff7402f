#!/usr/bin/env python3
"""What one sample costs, beside two peers in the same run.

    python3 tests/bench/sampling.py [--n 64] [--rounds 5] [--at-most] [--busy]

Over one tree of N Python processes of 4 threads, in turn, so that all have the same machine: `taskscope attach` with snapshots
switched off as far as that goes (a day between two, no Python stacks, no plugins) and ten samples a second; a tick of
flashruntime's sampler; and a sum of RSS by psutil over the same processes. CPU of taskscope is that of its whole family over the time,
divided by the samples of that time: segments, report and live lines are in it. With --busy a process begins and ends all the time
somewhere else on the machine, so that every sample has to look for new ones.
"""

import json
import os
import statistics
import subprocess
import time

import watched

COLUMNS = ["n", "busy", "name", "cpu_ms", "of_taskscope", "samples", "load"]
#: Ticks of the peers: prints CPU milliseconds of each, after one that does not count.
TICKS = """
import json, sys, time, pathlib, tempfile
import psutil
from flashruntime.monitor import sampler
root, rounds = int(sys.argv[1]), int(sys.argv[2])
file, cache = pathlib.Path(tempfile.mkdtemp()) / "telemetry.jsonl", {}
def flashruntime():
    line = {"ts": time.time(), "machine": sampler._machine_sample(), "processes": sampler._process_tree(root, cache)}
    with open(file, "a") as out:
        out.write(json.dumps(line) + "\\n")
def rss():
    process = psutil.Process(root)
    return sum(one.memory_info().rss for one in [process] + process.children(recursive=True))
def cost(tick):
    tick()
    costs = []
    for _ in range(rounds):
        begun = time.process_time()
        tick()
        costs.append((time.process_time() - begun) * 1000)
    return costs
print(json.dumps({"flashruntime, a tick": cost(flashruntime), "psutil, a sum of RSS": cost(rss)}))
"""
SETTINGS = watched.NO_PLUGINS + watched.NO_STACKS + '[monitor]\ninterval = "100ms"\nlog-interval = "10s"\n'


def taskscope(args, pid):
    """CPU milliseconds a sample, over some seconds after the first two."""
    with watched.Watch(watched.taskscope(args.binary, SETTINGS), pid, 86400) as watch:
        watch.next()
        time.sleep(2)
        family = watched.family(watch.process.pid)
        before, begun = watched.cpu_ms(family), time.monotonic()
        time.sleep(args.seconds)
        cost, took = watched.cpu_ms(family) - before, time.monotonic() - begun
        return cost / (took / 0.1)


def main():
    parser = watched.arguments(__doc__)
    parser.add_argument("--n", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5, help="how often each has its turn")
    parser.add_argument("--seconds", type=float, default=5, help="of taskscope in each turn")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--busy", action="store_true", help="processes begin and end elsewhere")
    parser.add_argument("--at-most", action="store_true",
                        help="fail unless a sample costs at most half of flashruntime's tick and at most psutil's sum")
    args = parser.parse_args()
    python = None if args.no_peer else watched.peer_python("sampling-venv", "requirements-sampling.txt")
    costs = {"taskscope, a sample": []}
    busy = None
    if args.busy:
        busy = subprocess.Popen(["sh", "-c", "while :; do sleep 0.02; done"], start_new_session=True)
    try:
        with watched.Tree(args.n) as tree:
            for _ in range(args.rounds):
                costs["taskscope, a sample"].append(taskscope(args, tree.pid))
                if python:
                    ticks = subprocess.run([python, "-c", TICKS, str(tree.pid), "10"], check=True, stdout=subprocess.PIPE)
                    for name, ours in json.loads(ticks.stdout).items():
                        costs.setdefault(name, []).append(statistics.median(ours))
    finally:
        if busy:
            os.killpg(busy.pid, 9)
            busy.wait()
    medians = {name: statistics.median(values) for name, values in costs.items()}
    ours = medians["taskscope, a sample"]
    rows = [{"n": args.n, "busy": args.busy, "name": name, "cpu_ms": round(cost, 2), "of_taskscope": round(cost / ours, 2),
             "samples": len(costs[name]), "load": round(os.getloadavg()[0], 1)} for name, cost in medians.items()]
    watched.table(rows, COLUMNS, args.json)
    if args.at_most:
        half, all_of = medians["flashruntime, a tick"] / 2, medians["psutil, a sum of RSS"]
        if ours > half or ours > all_of:
            raise SystemExit("%.2f ms is over %.2f or %.2f" % (ours, half, all_of))


if __name__ == "__main__":
    main()
