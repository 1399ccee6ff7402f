#!/usr/bin/env python3
"""What a day of samples weighs: 64 processes, each busy for a random part of every second and with memory that comes and goes.

    python3 tests/bench/day.py [--n 64] [--seconds 330] [--at-most]

`taskscope attach` samples them once a second; the segments that it wrote are weighed, and made a day of 86,400 samples. That every
second is different is the worst case: what does not change weighs nearly nothing. `changed` is the share of
readings of memory that differ from the one before: on a machine with no time for the processes it is small, and the figure no worst case.
"""

import glob
import gzip
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import watched

COLUMNS = ["n", "samples", "segments", "stored_bytes", "changed", "day_mb", "load"]
MOST_MB = 20
WORKER = """
import mmap, os, random, time
os.write(1, b"ready\\n")
held, rng = [], random.Random(os.getpid())
while True:
    begun, until = time.time(), time.process_time() + rng.random() * 0.012
    while time.process_time() < until: pass
    pages = rng.randrange(1, 256)
    held.append(mmap.mmap(-1, pages << 12, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    held[-1][::1 << 12] = b"x" * pages
    if rng.random() < 0.5 or len(held) > 16: held.pop(rng.randrange(len(held)))
    time.sleep(max(0.0, 1 - (time.time() - begun)))
"""
SETTINGS = watched.NO_PLUGINS + watched.NO_STACKS + '[monitor]\ninterval = "1s"\nlog-interval = "off"\n'


def segments(out):
    for path in glob.glob(os.path.join(out, "**", "samples", "*.json.gz"), recursive=True):
        with gzip.open(path) as file:
            yield os.path.getsize(path), json.load(file)


def changed(found):
    """How many of all readings of memory differ from the one before."""
    columns = [one["columns"].get("rss_4kib", []) for _, segment in found for one in segment["processes"]]
    steps = list(itertools.chain.from_iterable(column[1:] for column in columns))
    return sum(bool(step) for step in steps) / max(1, len(steps))


def main():
    parser = watched.arguments(__doc__)
    parser.add_argument("--n", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=330, help="one whole segment and the rest")
    parser.add_argument("--at-most", action="store_true", help="fail where a day is more than %d MB" % MOST_MB)
    args = parser.parse_args()
    shell = 'n=$1; shift; i=0; while [ $i -lt $n ]; do "$@" & i=$((i+1)); done; wait'
    command = ["sh", "-c", shell, "tree", str(args.n), sys.executable, "-c", WORKER]
    tree = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    with tempfile.TemporaryDirectory() as out:
        try:
            for _ in range(args.n):
                tree.stdout.readline()
            collector = subprocess.Popen(watched.taskscope(args.binary, SETTINGS)(out, tree.pid, 86400), stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL)
            time.sleep(args.seconds)
            collector.send_signal(signal.SIGTERM)
            collector.wait(watched.DEADLINE)
        finally:
            os.killpg(tree.pid, signal.SIGKILL)
            tree.wait()
        found = list(segments(out))
    samples = sum(len(segment["elapsed_usec"]) for _, segment in found)
    stored = sum(size for size, _ in found)
    day = stored / max(1, samples) * 86400 / 1e6
    row = {"n": args.n, "samples": samples, "segments": len(found), "stored_bytes": stored, "changed": round(changed(found), 2),
           "day_mb": round(day, 1), "load": round(os.getloadavg()[0], 1)}
    watched.table([row], COLUMNS, args.json)
    if args.at_most and (day > MOST_MB or not samples):
        raise SystemExit("a day of %d samples would be %.1f MB" % (86400, day))


if __name__ == "__main__":
    main()
