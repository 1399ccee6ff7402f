#!/usr/bin/env python3
"""How long a busy task of many threads is held up by being looked at.

    python3 tests/bench/stall.py [--threads 160] [--runs 5] [--seconds 12]

The task's main thread does equal steps of about a quarter of a millisecond and notes how long each took. Nobody looks,
taskscope looks once a second, or `py-spy dump --nonblocking` does; in turns, several runs of each. What counts is the
median of the runs' 99.9th percentiles, and how much longer the longest step of a run got, by the median as well.
"""

import os
import statistics
import subprocess
import sys
import time

import watched

COLUMNS = ["name", "runs", "steps", "median_us", "p99_9_us", "of_each_run", "longest_us", "longest_added_us", "taskscope_over_peer", "load"]


def steps_of(args, look):
    """The steps of one run while `look` is at work; it is given the PID and what to call when it is ready."""
    spinner = subprocess.Popen([sys.executable, os.path.join(watched.HERE, "spinner.py"), str(args.threads), str(args.seconds)],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def go():
        spinner.stdin.write("go\n")
        spinner.stdin.flush()
        return time.monotonic() + args.seconds
    try:
        spinner.stdout.readline()
        look(spinner.pid, go)
        return [int(word) for word in spinner.stdout.readline().split()]
    finally:
        spinner.kill()
        spinner.wait()
        spinner.stdin.close()
        spinner.stdout.close()


def wait(until):
    time.sleep(max(0, until - time.monotonic()))


def nobody(_pid, go):
    wait(go())


def with_taskscope(args):
    def look(pid, go):
        with watched.Watch(watched.taskscope(args.binary), pid, args.interval) as watch:
            watch.settle()  # a plugin that is being compiled is no part of a capture
            wait(go())
    return look


def with_dumps(args, python):
    program = os.path.join(os.path.dirname(python), "py-spy")

    def look(pid, go):
        until = go()
        while time.monotonic() < until:
            due = time.monotonic() + args.interval
            subprocess.run([program, "dump", "--json", "--nonblocking", "--pid", str(pid)], stdout=subprocess.DEVNULL)
            wait(min(due, until))
    return look


def row_of(name, runs):
    runs = [sorted(steps) for steps in runs]
    def of_each(share):
        return [steps[min(len(steps) - 1, int(share * len(steps)))] for steps in runs]
    def middle(share):
        return round(statistics.median(of_each(share)))
    return {"name": name, "runs": len(runs), "steps": sum(map(len, runs)), "median_us": middle(0.5), "p99_9_us": middle(0.999),
            "of_each_run": of_each(0.999), "longest_us": middle(1), "load": round(os.getloadavg()[0], 1)}


def main():
    parser = watched.arguments(__doc__, interval=1.0)
    parser.add_argument("--threads", type=int, default=160)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--quick", action="store_true", help="without the peer: whether this bench still works, no figures")
    args = parser.parse_args()
    python = None if args.quick else watched.peer_python()
    looks = {"nobody": nobody, "taskscope": with_taskscope(args)}
    if python:
        looks["py-spy dump --nonblocking"] = with_dumps(args, python)
    steps = {name: [] for name in looks}
    for _ in range(args.runs):
        for name, look in looks.items():
            steps[name].append(steps_of(args, look))
    rows = [row_of(name, found) for name, found in steps.items()]
    for row in rows[1:]:
        row["longest_added_us"] = row["longest_us"] - rows[0]["longest_us"]
    if python:
        rows[1]["taskscope_over_peer"] = round(rows[1]["p99_9_us"] / rows[2]["p99_9_us"], 2)
    watched.table(rows, COLUMNS, args.json)


if __name__ == "__main__":
    main()
