#!/usr/bin/env python3
"""What a stage costs the task: the two lines that examples/stages/taskscope_stage.py sends, without waiting for an answer.

    python3 tests/bench/stage.py [--stages 1000000]

A Python task under `taskscope run` times each of 10,000 empty stages, in turns with the floor: two lines of the same length
to a socketpair that a thread empties, which is what any message to anybody costs. Then `--stages` of them as fast as it can, where
it has to wait for the collector, which reads in rounds; and without a collector. Microseconds of wall time; the median counts,
and of those without a pause the mean, in which waiting is. `lost` are those that the collector was not told, `grown_mib` what its
resident memory grew by during those without a pause.
"""

import json
import os
import subprocess
import sys
import tempfile

import watched

COLUMNS = ["name", "stages", "median_us", "p99_us", "mean_us", "over_floor", "lost", "grown_mib", "load"]
EXAMPLE = os.path.join(watched.ROOT, "examples", "stages")

TASK = """
import json, os, socket, sys, threading, time
sys.path.insert(0, sys.argv[2])
sys.dont_write_bytecode = True
from taskscope_stage import stage
count, now = int(sys.argv[1]), time.perf_counter
ours, theirs = socket.socketpair()
def empty():
    while theirs.recv(65536): pass
threading.Thread(target=empty, daemon=True).start()
line = b"x" * 60
def timed(work, pause):
    times = []
    for _ in range(min(count, 10000) if pause else count):
        begun = now(); work(); times.append((now() - begun) * 1e6)
        if pause: time.sleep(pause)
    return sorted(times)
def marked():
    with stage("step"): pass
def floor():
    ours.send(line); ours.send(line)
rows = {"floor: two sends": timed(floor, 1e-4), "a stage": timed(marked, 1e-4)}
def resident():
    with open("/proc/%d/status" % os.getppid()) as file:
        return int(file.read().split("VmRSS:")[1].split()[0]) / 1024
before = resident()
rows["stages without a pause"] = timed(marked, 0)
grown = resident() - before
figures = {name: [len(times), times[len(times) // 2], times[len(times) * 99 // 100], sum(times) / len(times)]
           for name, times in rows.items()}
print(json.dumps([figures, grown]), flush=True)
if "TASKSCOPE_SOCKET" in os.environ:
    time.sleep(0.5)
    marked()  # an end that found no room goes first
    time.sleep(0.5)
    asked = socket.socket(socket.AF_UNIX); asked.connect(os.environ["TASKSCOPE_SOCKET"]); asked.sendall(b"status\\n")
    print(asked.makefile().readline(), end="", flush=True)
"""


def measure(args, command):
    """The rows of one run, and what the collector says of the stages."""
    with tempfile.TemporaryDirectory() as folder:
        task = [sys.executable, "-c", TASK, str(args.stages), EXAMPLE]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TASKSCOPE_")}
        done = subprocess.run(command + task, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, check=True)
    (figures, grown), *status = (json.loads(line) for line in done.stdout.splitlines())
    return figures, grown, status[0]["status"]["stages"] if status else None


def rows(args):
    watched_run, grown, stages = measure(args, [os.path.abspath(args.binary), "run", "--interval", "1h", "--"])
    alone, _, _ = measure(args, [])
    floor = watched_run["floor: two sends"][1]
    pauseless = "stages without a pause"
    told = watched_run["a stage"][0] + watched_run[pauseless][0] + 1  # the last one comes when they are counted
    if stages["trouble"]["unmatched_ends"] or stages["open"]:
        raise SystemExit("stages were torn: %s" % stages)
    for name, times in list(watched_run.items()) + [("without a collector", alone["a stage"])]:
        count, median, p99, mean = times
        yield {"name": name, "stages": count, "median_us": round(median, 1), "p99_us": round(p99, 1),
               "mean_us": round(mean, 1), "over_floor": round(median / floor, 1),
               "lost": told - stages["ended"] if name == pauseless else "", "grown_mib": round(grown, 1) if name == pauseless else "",
               "load": round(os.getloadavg()[0], 1)}


def main():
    parser = watched.arguments(__doc__)
    parser.add_argument("--stages", type=int, default=10000)
    args = parser.parse_args()
    watched.table(rows(args), COLUMNS, args.json)


if __name__ == "__main__":
    main()
