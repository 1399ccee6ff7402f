#!/usr/bin/env python3
"""How right the step clock is: eight ranks count at known rates, and `taskscope show` tells how fast each is.

    python3 tests/bench/steps.py [--python ~/.pyenv/versions/3.8*/bin/python ...] [--seconds 25]

The ranks have no code of ours: taskscope reads the number from their frames. For each interpreter one row with the worst
error over the ranks, in percent of the true rate; over 5 it fails.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import watched

COLUMNS = ["python", "ranks", "worst_error_percent", "rates"]
RATES = [50, 50, 50, 25, 50, 50, 50, 50]
ROW = re.compile(r"^\W*(\d+) .*\b(?:global_)?step \d+, ([\d.]+)/s", re.MULTILINE)


def shown(binary, store):
    """The rate of each rank, as `show` prints it; of the latest snapshot, or of none while there is none."""
    def show(*options):
        return subprocess.run([binary, "show", store, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              universal_newlines=True).stdout
    snapshot = show("--json")
    processes = json.loads(snapshot)["processes"] if snapshot else []
    ranks = {one["pid"]: one["distributed_environment"].get("RANK") for one in processes}
    rates = ((ranks.get(int(pid)), float(rate)) for pid, rate in ROW.findall(show()))
    return {int(rank): rate for rank, rate in rates if rank is not None}


def watch(binary, python, interval, seconds):
    with tempfile.TemporaryDirectory(prefix="bench-") as out:
        with watched.Tree(len(RATES), RATES, python=python, script="stepping.py") as tree:
            command = watched.taskscope(binary)(out, tree.pid, interval)
            collector = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            store, until = os.path.join(out, "store"), time.monotonic() + watched.DEADLINE
            try:
                time.sleep(seconds)
                while len(shown(binary, store)) < len(RATES) and time.monotonic() < until:
                    time.sleep(interval)
            finally:
                collector.send_signal(signal.SIGTERM)
                collector.wait()
        return shown(binary, store)


def main():
    parser = watched.arguments(__doc__, interval=1.0)
    parser.add_argument("--python", nargs="+", default=[sys.executable])
    parser.add_argument("--seconds", type=float, default=25)
    parser.add_argument("--error", type=float, default=5, help="percent that fail it")
    args = parser.parse_args()
    rows = watched.table(measured(args), COLUMNS, args.json)
    if any(row["worst_error_percent"] > args.error for row in rows):
        raise SystemExit("a rate is off by more than %g %%" % args.error)


def measured(args):
    for python in args.python:
        rates = watch(args.binary, python, args.interval, args.seconds)
        errors = [abs(rates.get(rank, 0) - rate) / rate for rank, rate in enumerate(RATES)]
        version = subprocess.run([python, "-V"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True).stdout.split()[-1]
        yield {"python": version, "ranks": len(rates), "worst_error_percent": round(100 * max(errors), 2),
               "rates": " ".join(str(rates.get(rank)) for rank in range(len(RATES)))}


if __name__ == "__main__":
    main()
