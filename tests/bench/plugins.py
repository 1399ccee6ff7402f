#!/usr/bin/env python3
"""What plugins cost: a cycle with all three built-in ones, each one's calls, loading, starting, compiling, and idle sinks.

    python3 tests/bench/plugins.py [--n 64 512] [--cycles 8] [--components FILE...]

For each N: N Python processes as in cycle.py, watched with all built-in plugins at work (the pattern and the files in focus
of the settings match the processes), and once more without plugins. The plugins' CPU is that of their threads, by their
clocks, and its share that of the whole family's. Loading and starting are in the log (TASKSCOPE_LOG=debug) of a collector whose
cache is empty. Compiling is the program's own compiler on each component, in a process that is not held back (nice 0).
"""

import glob
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time

import parts
import watched

#: All three have something to say.
AT_WORK = """[capture]
process-pattern = "worker[.]py"
focus-files = ["worker.py"]
[[enricher]]
name = "process-tags"
config = { rules = [{ tag = "python", exe = "python" }, { tag = "worker", command = "worker[.]py" }] }
"""
#: One that is given every snapshot and has nothing to send.
IDLE_SINK = """[[sink]]
name = "hook-%d"
wasm = "builtin:webhook"
config = { url = "http://127.0.0.1:9", severity = "error" }
permissions = { http = ["http://127.0.0.1:9"] }
"""
COMPONENTS = os.path.join(watched.ROOT, "target", "plugins", "wasm32-wasip2", "release")
CYCLE = ["n", "cpu_ms", "of_it_plugins_ms", "percent", "without_plugins_ms", "rss_mib", "rss_without_mib", "cycles", "load"]
CALLS = ["n", "plugin", "median_call_ms", "longest_call_ms", "linear_memory_mib", "annotations"]
UNITS = {"s": 1000.0, "ms": 1.0, "µs": 0.001, "ns": 0.000001}


def plugin_ms(pid):
    threads = parts.threads_ms(pid)
    return sum(threads.get(name, 0) for name in ("plugins", "plugin-ticker", "plugin-loader"))


def at_work(n, tree, args, outcomes):
    """A row about cycles with all plugins over `tree`; adds every plugin's outcomes to `outcomes`."""
    costs, plugins = [], []
    with watched.Watch(watched.taskscope(args.binary, AT_WORK), tree.pid, args.interval) as watch:
        watch.settle()
        before = plugin_ms(watch.process.pid)
        for _ in range(args.cycles):
            _, snapshot, cost = watch.cycle()
            after = plugin_ms(watch.process.pid)
            costs.append(cost)
            plugins.append(after - before)
            before = after
            outcomes += [dict(outcome, n=n) for outcome in snapshot["plugins"]]
        rss = watch.peak[0]
    cost, own = statistics.median(costs), statistics.median(plugins)
    return {"n": n, "cpu_ms": round(cost, 2), "of_it_plugins_ms": round(own, 2), "percent": round(100 * own / cost, 1),
            "rss_mib": round(rss, 1), "cycles": len(costs), "load": round(os.getloadavg()[0], 1)}


def calls(outcomes):
    """A row for each size and plugin."""
    for n, name in sorted({(outcome["n"], outcome["instance"]) for outcome in outcomes}):
        of = [outcome for outcome in outcomes if (outcome["n"], outcome["instance"]) == (n, name)]
        if any(outcome["outcome"] != "ok" for outcome in of):
            raise SystemExit("%s did not answer: %s" % (name, of))
        times = [outcome["duration_us"] / 1000 for outcome in of]
        yield {"n": n, "plugin": name, "median_call_ms": round(statistics.median(times), 2), "longest_call_ms": round(max(times), 2),
               "linear_memory_mib": round(max(outcome["memory_bytes"] for outcome in of) / 2**20, 2),
               "annotations": max(outcome["annotations"] for outcome in of)}


def logged(log, words, field):
    """The values of `field` in the lines of the log with `words`, milliseconds."""
    found = [re.findall(r"\b%s=([0-9.]+)([a-zµ]+)" % field, line) for line in log.splitlines() if words in line]
    return [round(float(number) * UNITS[unit], 2) for values in found for number, unit in values]


def idle_sinks(args):
    """Rows about the memory of a collector whose sinks have nothing to deliver, and what one of them takes more."""
    rows = []
    with watched.Tree(1) as tree:
        for count in (0, 1, 8):
            settings = "".join(IDLE_SINK % number for number in range(count))
            with watched.Watch(watched.taskscope(args.binary, settings), tree.pid, args.interval) as watch:
                watch.settle()
                for _ in range(args.cycles):
                    path, snapshot, _ = watch.cycle()
                outcomes = [one for one in snapshot["plugins"] if "sink" in one]
                if len(outcomes) != count or any(one["outcome"] != "ok" for one in outcomes):
                    raise SystemExit("a sink is not ready: %s" % outcomes)
                rss, pss = watched.resident([watch.process.pid])
            rows.append({"idle_sinks": count, "rss_mib": round(rss, 1), "pss_mib": round(pss, 1)})
    for row in rows[1:]:
        row["each_mib"] = round((row["rss_mib"] - rows[0]["rss_mib"]) / row["idle_sinks"], 2)
    return rows


def start(args):
    """Rows about loading and starting, of some snapshots of ourselves with an empty cache."""
    loads, instantiations, starts = [], [], []
    cache = tempfile.mkdtemp(prefix="bench-")
    environment = dict(os.environ, XDG_CACHE_HOME=cache, TASKSCOPE_LOG="debug", NO_COLOR="1")
    try:
        for _ in range(args.cycles):
            command = [args.binary, "snapshot", "--pid", str(os.getpid()), "--json"]
            done = subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
            log = done.stderr.decode()
            loads += logged(log, "Embedded component loaded", "elapsed")
            instantiations += logged(log, "Plugin started", "instantiated")
            starts += logged(log, "Plugin started", "elapsed")
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    steps = [("load from the binary", loads), ("instantiate", instantiations), ("instantiate, describe and init", starts)]
    return [{"step": name, "median_ms": statistics.median(values), "longest_ms": max(values), "count": len(values)}
            for name, values in steps if values]


def compiling(args):
    """Rows about compiling each component in a process of its own."""
    paths = args.components or sorted(glob.glob(os.path.join(COMPONENTS, "*.wasm")))
    for path in paths:
        with open(path, "rb") as component, tempfile.TemporaryFile() as code:
            begun = time.monotonic()
            command = [args.binary, "plugin-compile", "60", str(1 << 30), "0"]
            # Our side of its standard error is what it lives by.
            compiler = subprocess.Popen(command, stdin=component, stdout=code, stderr=subprocess.PIPE)
            words = compiler.stderr.read()
            _, _, used = os.wait4(compiler.pid, 0)
            size = os.fstat(code.fileno()).st_size
        if not words.endswith(b"compiled\n"):
            raise SystemExit("%s: %s" % (path, words.decode()))
        yield {"component": os.path.basename(path), "wasm_kib": os.path.getsize(path) >> 10, "code_kib": size >> 10,
               "wall_ms": round((time.monotonic() - begun) * 1000), "cpu_ms": round((used.ru_utime + used.ru_stime) * 1000),
               "peak_rss_mib": used.ru_maxrss >> 10}


def main():
    parser = watched.arguments(__doc__, cycles=8, interval=1.0)
    parser.add_argument("--n", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--components", nargs="+", help="components to compile instead of our own")
    parser.add_argument("--at-most", type=float, help="fail if plugins cost more percent of a cycle than this at any N")
    parser.add_argument("--sink-at-most", type=float, help="fail if an idle sink takes more MiB than this")
    args = parser.parse_args()
    rows, outcomes = [], []
    for n in args.n:
        with watched.Tree(n) as tree:
            row = at_work(n, tree, args, outcomes)
            without = watched.measure("without", watched.taskscope(args.binary, watched.NO_PLUGINS), tree, args, n)
        rows.append(dict(row, without_plugins_ms=without["cpu_ms"], rss_without_mib=without["rss_mib"]))
    watched.table(rows, CYCLE, args.json)
    print()
    watched.table(calls(outcomes), CALLS, args.json)
    print()
    watched.table(start(args), ["step", "median_ms", "longest_ms", "count"], args.json)
    print()
    watched.table(compiling(args), ["component", "wasm_kib", "code_kib", "wall_ms", "cpu_ms", "peak_rss_mib"], args.json)
    print()
    sinks = idle_sinks(args)
    watched.table(sinks, ["idle_sinks", "rss_mib", "pss_mib", "each_mib"], args.json)
    largest = max(row["each_mib"] for row in sinks[1:])
    if args.sink_at_most and largest > args.sink_at_most:
        raise SystemExit("an idle sink takes %s MiB, more than %s" % (largest, args.sink_at_most))
    most = max(row["percent"] for row in rows)
    if args.at_most and most > args.at_most:
        raise SystemExit("plugins cost %s %% of a cycle, more than %s %%" % (most, args.at_most))


if __name__ == "__main__":
    main()
