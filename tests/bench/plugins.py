#!/usr/bin/env python3
"""What each plugin costs: compiling (in a process of its own), loading, starting, a call, memory.

    python3 tests/bench/plugins.py [--binary target/release/taskscope] [--n 64] [--seconds 10] [--config collector.toml]

Starts N Python processes as cycle.py does and watches them twice: with an empty cache, which shows the compiling, and again,
which shows the loading. Figures come from the log (TASKSCOPE_LOG=debug) and from the snapshots themselves.
"""

import argparse
import glob
import gzip
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from cycle import ROOT, Tree

UNITS = {"s": 1000.0, "ms": 1.0, "µs": 0.001, "ns": 0.000001}


def milliseconds(text):
    """A duration as Rust prints it."""
    number, unit = re.fullmatch(r"([0-9.]+)(s|ms|µs|ns)", text).groups()
    return float(number) * UNITS[unit]


def logged(log, words, field):
    """The values of `field` in the lines of the log with `words`, milliseconds."""
    return [milliseconds(value) for line in log.splitlines() if words in line
            for value in re.findall(r"\b%s=([0-9.]+[a-zµ]+)" % field, line)]


def watch(args, tree, cache):
    """Watches `tree` for a while; returns the log and the outcomes of all snapshots."""
    out = tempfile.mkdtemp(prefix="bench-")
    environment = dict(os.environ, XDG_CACHE_HOME=cache, TASKSCOPE_LOG="debug")
    command = [args.binary, "attach", "--pid", str(tree.process.pid), "--store", out, "--interval", "250ms"]
    if args.config:
        command += ["--config", args.config]
    try:
        with tempfile.TemporaryFile("w+") as log:
            collector = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log, env=environment)
            time.sleep(args.seconds)
            collector.send_signal(signal.SIGTERM)
            collector.wait(60)
            log.seek(0)
            words = log.read()
        outcomes = []
        for path in sorted(glob.glob(os.path.join(out, "**", "snapshots", "*.json.gz"), recursive=True)):
            with gzip.open(path) as file:
                outcomes += json.load(file)["plugins"]
        return words, outcomes
    finally:
        shutil.rmtree(out, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(ROOT, "target", "release", "taskscope"))
    parser.add_argument("--python", default=os.path.realpath(sys.executable), help="interpreter of the workers")
    parser.add_argument("--n", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--config", help="settings that name plugins")
    args = parser.parse_args()
    args.wake = 0
    cache, tree = tempfile.mkdtemp(prefix="bench-"), Tree(args.python, args.n, 0)
    try:
        cold, _ = watch(args, tree, cache)
        warm, outcomes = watch(args, tree, cache)
    finally:
        tree.end()
        shutil.rmtree(cache, ignore_errors=True)
    shown = lambda values: ", ".join("%.2f" % value for value in values) or "-"
    print("| all plugins, in the order of loading | ms |\n|---|---|")
    print("| compile (a process of its own) | %s |" % shown(logged(cold, "Component compiled (", "elapsed")))
    print("| load from the cache | %s |" % shown(logged(warm, "Component loaded (", "elapsed")))
    print("| instantiate | %s |" % shown(logged(warm, "Plugin started (", "instantiated")))
    print("| instantiate, describe and init | %s |" % shown(logged(warm, "Plugin started (", "elapsed")))
    print("\n| plugin | calls | median call ms | linear memory MiB |\n|---|---|---|---|")
    for name in sorted({outcome["instance"] for outcome in outcomes}):
        answered = [outcome for outcome in outcomes if outcome["instance"] == name and outcome["outcome"] == "ok"]
        times = [outcome["duration_us"] / 1000 for outcome in answered]
        memory = max((outcome["memory_bytes"] for outcome in answered), default=0) / 2**20
        print("| %s | %d | %s | %.1f |" % (name, len(times), shown([statistics.median(times)] if times else []), memory))


if __name__ == "__main__":
    main()
