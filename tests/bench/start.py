#!/usr/bin/env python3
"""How much later the first instruction of a task comes: the bare command, Debian's tini, and `taskscope run`.

    python3 tests/bench/start.py [--binary target/release/taskscope] [--runs 100] [--tini /usr/bin/tini]

The task is `date`, which tells the time; what is counted is the time from before the start until then. The commands take turns,
so that a busy machine is as busy for each. The ratios are to tini's: of medians, and of the fastest, which a busy machine does
not change.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATE = [shutil.which("date") or "/bin/date", "+%s%N"]


def delay_ms(before, directory):
    began = time.time_ns()
    task = subprocess.Popen([*before, *DATE], cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    told = int(task.stdout.readline())
    if task.wait() != 0:
        raise SystemExit("%s ended with %d" % (before, task.returncode))
    return (told - began) / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(ROOT, "target/release/taskscope"))
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--tini", default=shutil.which("tini"), help="Debian's package tini")
    parser.add_argument("--json", help="append each row to this file as well")
    args = parser.parse_args()
    commands = {"bare": [], "tini": [args.tini, "-s", "--"], "taskscope run": [os.path.abspath(args.binary), "run", "--"]}
    if not args.tini:
        print("there is no tini here (apt-get install tini): no ratio")
        del commands["tini"]
    delays = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(args.runs):
            for name, before in commands.items():
                delays[name].append(delay_ms(before, directory))
    medians = {name: statistics.median(values) for name, values in delays.items()}
    print("| command | runs | median ms | fastest ms | over tini | fastest over tini |\n|---|---|---|---|---|---|")
    for name, median in medians.items():
        fastest = min(delays[name])
        row = {"command": name, "runs": args.runs, "median_ms": round(median, 2), "fastest_ms": round(fastest, 2)}
        if "tini" in medians:
            row["over_tini"] = round(median / medians["tini"], 2)
            row["fastest_over_tini"] = round(fastest / min(delays["tini"]), 2)
        print("| %s |" % " | ".join(str(value) for value in row.values()))
        if args.json:
            with open(args.json, "a") as file:
                file.write(json.dumps({"bench": "start", **row}) + "\n")


if __name__ == "__main__":
    main()
