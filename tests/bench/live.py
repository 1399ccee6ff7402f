#!/usr/bin/env python3
"""What judging while a task runs costs, beside what taking the same snapshots cost.

    cargo build --release --workspace --examples && cargo build --release
    python3 tests/bench/live.py [--n 1 8 64] [--wake 0.5] [--judge target/release/examples/live]

For each N: N Python processes of 4 threads, each 20 frames deep, watched by `taskscope attach` without plugins. Then the
stored snapshots are judged one by one, as the collector does, each with the last few before it. CPU milliseconds of one core a
snapshot: what taking it had cost (`capture.cpu_ms`: capture and helpers, neither plugins nor store), and what judging costs.
Program and example are of one build, or the share says nothing.
"""

import os
import shutil
import subprocess
import tempfile
import time

import watched

COLUMNS = ["processes", "snapshots", "judge_ms", "capture_ms", "percent", "told"]


def snapshots(binary, n, wake, count, folder):
    """Paths of the documents of `count` snapshots of a tree of `n`."""
    store = os.path.join(folder, "store")
    settings = os.path.join(folder, "collector.toml")
    with open(settings, "w") as file:
        file.write(watched.NO_PLUGINS)
    command = [binary, "--config", settings, "attach", "--store", store, "--name", "bench/live", "--interval", "500ms"]
    with watched.Tree(n, ["--wake", wake] if wake else []) as tree:
        collector = subprocess.Popen(command + ["--pid", str(tree.pid)], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + watched.DEADLINE
        while len(stored(binary, store)) < count and time.monotonic() < deadline:
            time.sleep(0.5)
        collector.terminate()
        collector.wait()
    return list(documents(binary, store, folder))


def stored(binary, store):
    """The ids of what lies in the store."""
    for folder, _, names in os.walk(store):
        if folder.endswith("snapshots"):
            return sorted(name.split(".json")[0] for name in names if name.endswith(".json.gz"))
    return []


def documents(binary, store, folder):
    for number, name in enumerate(stored(binary, store)):
        shown = subprocess.run([binary, "show", store, "--json", "--at", name], stdout=subprocess.PIPE, check=True)
        path = os.path.join(folder, "%06d.json" % number)
        with open(path, "wb") as file:
            file.write(shown.stdout)
        yield path


def main():
    parser = watched.arguments(__doc__)
    parser.add_argument("--n", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--wake", type=float, default=0, help="seconds between changes of every stack; 0: none changes")
    parser.add_argument("--judge", default=os.path.join(watched.ROOT, "target", "release", "examples", "live"))
    parser.add_argument("--count", type=int, default=20, help="snapshots at least")
    parser.add_argument("--at-most", type=float, help="fail where judging takes more percent of a capture")
    args = parser.parse_args()
    print("| %s |\n|%s" % (" | ".join(COLUMNS), "---|" * len(COLUMNS)), flush=True)
    worst = 0.0
    for n in args.n:
        folder = tempfile.mkdtemp(prefix="taskscope-live-")
        try:
            row = subprocess.run([args.judge] + snapshots(args.binary, n, args.wake, args.count, folder), check=True,
                                 stdout=subprocess.PIPE, text=True).stdout
        finally:
            shutil.rmtree(folder)
        print(row, end="", flush=True)
        worst = max(worst, float(row.split("|")[5]))
    if args.at_most and worst > args.at_most:
        raise SystemExit("judging takes %s %% of a capture, more than %s" % (worst, args.at_most))


if __name__ == "__main__":
    main()
