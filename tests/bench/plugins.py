#!/usr/bin/env python3
"""What each plugin costs: compiling (in a process of its own), loading, starting, a call, memory.

    python3 tests/bench/plugins.py [--n 64] [--cycles 20] [--config collector.toml]

Starts N Python processes as cycle.py does and watches them twice: with an empty cache, which shows the compiling, and again,
which shows the loading. Figures come from the log (TASKSCOPE_LOG=debug) and from the snapshots themselves.
"""

import os
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

import watched

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
    """Watches `tree` until every plugin has answered in `args.cycles` snapshots; returns the log and all outcomes."""
    out = tempfile.mkdtemp(prefix="bench-")
    environment = dict(os.environ, XDG_CACHE_HOME=cache, TASKSCOPE_LOG="debug")
    command = [args.binary, "attach", "--pid", str(tree.pid), "--store", out, "--interval", "%dms" % (args.interval * 1000)]
    if args.config:
        command += ["--config", args.config]
    try:
        with tempfile.TemporaryFile("w+") as log:
            collector = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log, env=environment)
            try:
                outcomes = wait(args, collector, out)
            finally:
                collector.send_signal(signal.SIGTERM)
                collector.wait(60)
            log.seek(0)
            return log.read(), outcomes
    finally:
        shutil.rmtree(out, ignore_errors=True)


def wait(args, collector, out):
    outcomes, known, answered = [], set(), 0
    until = time.monotonic() + watched.DEADLINE
    while answered < args.cycles:
        if collector.poll() is not None or time.monotonic() > until:
            raise SystemExit("the plugins did not answer")
        time.sleep(0.05)
        for path in watched.stored(out):
            if path not in known:
                known.add(path)
                plugins = watched.read(path)["plugins"]
                outcomes += plugins
                answered += all(plugin["outcome"] == "ok" for plugin in plugins)
    return outcomes


def main():
    parser = watched.arguments(__doc__, cycles=20, interval=0.25)
    parser.add_argument("--n", type=int, default=64)
    parser.add_argument("--config", help="settings that name plugins")
    args = parser.parse_args()
    cache = tempfile.mkdtemp(prefix="bench-")
    try:
        with watched.Tree(args.n) as tree:
            cold, _ = watch(args, tree, cache)
            warm, outcomes = watch(args, tree, cache)
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    shown = lambda values: ", ".join("%.2f" % value for value in values) or "-"
    steps = [("compile (a process of its own)", logged(cold, "Component compiled (", "elapsed")),
             ("load from the cache", logged(warm, "Component loaded (", "elapsed")),
             ("instantiate", logged(warm, "Plugin started (", "instantiated")),
             ("instantiate, describe and init", logged(warm, "Plugin started (", "elapsed"))]
    rows = ({"all plugins, in the order of loading": name, "ms": shown(values)} for name, values in steps)
    watched.table(rows, ["all plugins, in the order of loading", "ms"], args.json)
    print()
    watched.table((row(name, outcomes) for name in sorted({outcome["instance"] for outcome in outcomes})),
                  ["plugin", "calls", "median call ms", "linear memory MiB"], args.json)


def row(name, outcomes):
    answered = [outcome for outcome in outcomes if outcome["instance"] == name and outcome["outcome"] == "ok"]
    times = [outcome["duration_us"] / 1000 for outcome in answered]
    memory = max((outcome["memory_bytes"] for outcome in answered), default=0) / 2**20
    return {"plugin": name, "calls": len(times), "median call ms": "%.2f" % statistics.median(times) if times else "-",
            "linear memory MiB": "%.1f" % memory}


if __name__ == "__main__":
    main()
