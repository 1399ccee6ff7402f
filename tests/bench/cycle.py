#!/usr/bin/env python3
"""What one capture cycle costs, beside metaflow_pyspy in the same run.

    python3 tests/bench/cycle.py [--binary target/release/taskscope] [--n 1 8 64] [--wake 0.5]

For each N: starts N Python processes of 4 threads, each 20 frames deep, then lets `taskscope attach` watch them, then the
peer. CPU is user and system time of the collector's whole family (itself, its live descendants, the children it has
reaped), without start-up and the first two cycles. The peer lives in a venv that this script makes under target/; without a
package index there is no peer and no ratio. Prints a table and, with --json, one JSON line for each measurement.
"""

import argparse
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
START_DEADLINE = 120
PEER_MODULE = "metaflow_extensions.obpyspy.plugins.pyspy.collector"


class Tree:
    """A shell that is no Python, with N workers below it, in a session of its own."""

    def __init__(self, python, n, wake):
        worker = [python, os.path.join(HERE, "worker.py")] + (["--wake", str(wake)] if wake else [])
        script = 'n=$1; shift; i=0; while [ $i -lt $n ]; do RANK=$i WORLD_SIZE=$n "$@" & i=$((i+1)); done; wait'
        self.process = subprocess.Popen(["sh", "-c", script, "tree", str(n)] + worker, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, start_new_session=True)
        for _ in range(n):
            if self.process.stdout.readline() != b"ready\n":
                self.end()
                raise SystemExit("a worker did not start")

    def end(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


def stat_fields(pid):
    with open("/proc/%d/stat" % pid, "rb") as file:
        return file.read().rpartition(b")")[2].split()


def family(root):
    """`root` and its live descendants."""
    children = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            children.setdefault(int(stat_fields(int(name))[1]), []).append(int(name))
        except OSError:
            continue
    found = [root]
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def usage(root):
    """CPU seconds of the family with the children it reaped, and its resident bytes."""
    ticks = resident = 0
    for pid in family(root):
        try:
            ticks += sum(map(int, stat_fields(pid)[11:15]))
            with open("/proc/%d/statm" % pid) as file:
                resident += int(file.read().split()[1]) * PAGE
        except OSError:
            continue
    return ticks / TICK, resident


def taskscope(binary):
    def command(out, pid, interval):
        return [binary, "attach", "--pid", str(pid), "--store", out, "--interval", "%dms" % (interval * 1000)]
    return command


def peer(python):
    def command(out, pid, interval):
        config = {"task": {"pathspec": "Bench/1/s/1", "flow": "Bench", "run": "1", "step": "s", "task": "1", "attempt": 0,
                           "node": "n", "host": "h"},
                  "task_pid": pid, "remote": False, "datastore_type": "local", "datastore_root": out,
                  "node_path": "Bench/1/s/1/attempt-0/diagnostics/node-n", "node_identity": "n",
                  "local_dir": os.path.join(out, "pending"), "interval": interval, "timeout": 25, "process_pattern": None,
                  "nonblocking": True, "max_parallel": 8, "max_local_mb": 512, "focus_files": []}
        path = os.path.join(out, "config.json")
        with open(path, "w") as file:
            json.dump(config, file)
        return [python, "-m", PEER_MODULE, "--config", path]
    return command


def measure(name, make_command, args, n):
    out = tempfile.mkdtemp(prefix="bench-")
    tree = Tree(args.python, n, args.wake)
    pattern = os.path.join(out, "**", "snapshots", "*.json.gz")
    try:
        begin = time.monotonic()
        collector = subprocess.Popen(make_command(out, tree.process.pid, args.interval), stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, start_new_session=True)

        def wait_for(count):
            while len(glob.glob(pattern, recursive=True)) < count:
                if collector.poll() is not None or time.monotonic() - begin > START_DEADLINE:
                    raise SystemExit("%s: no %d snapshots" % (name, count))
                time.sleep(0.01)
            return time.monotonic() - begin

        first = wait_for(1)
        wait_for(3)
        cpu_before, peak = usage(collector.pid)
        count_before, until = len(glob.glob(pattern, recursive=True)), time.monotonic() + args.seconds
        while time.monotonic() < until:
            time.sleep(0.2)
            peak = max(peak, usage(collector.pid)[1])
        cpu_after, _ = usage(collector.pid)
        files = sorted(glob.glob(pattern, recursive=True))
        cycles = max(1, len(files) - count_before)
        collector.send_signal(signal.SIGTERM)
        collector.wait(60)
        return {"name": name, "n": n, "wake_s": args.wake, "cycles": cycles, "first_snapshot_s": round(first, 3),
                "cpu_ms_per_cycle": round((cpu_after - cpu_before) * 1000 / cycles, 1),
                "rss_mib": round(peak / 2**20, 1), "snapshot_bytes": os.path.getsize(files[-1]),
                "load": os.getloadavg()[0]}
    finally:
        if collector.poll() is None:
            os.killpg(collector.pid, signal.SIGKILL)
            collector.wait()
        tree.end()
        shutil.rmtree(out, ignore_errors=True)


def peer_python():
    """The interpreter of a venv with the peer; None where it cannot be made."""
    venv = os.path.join(ROOT, "target", "bench-venv")
    python = os.path.join(venv, "bin", "python")
    requirements = os.path.join(HERE, "requirements.txt")
    stamp = os.path.join(venv, "ready")
    if not os.path.exists(stamp):
        try:
            subprocess.run([sys.executable, "-m", "venv", venv], check=True)
            subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", requirements], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            print("no peer: %s" % error, file=sys.stderr)
            return None
        open(stamp, "w").close()
    return python


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(ROOT, "target", "release", "taskscope"))
    parser.add_argument("--python", default=os.path.realpath(sys.executable), help="interpreter of the workers")
    parser.add_argument("--n", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--interval", type=float, default=2.0)
    parser.add_argument("--wake", type=float, default=0, help="seconds between changes of every stack; 0: none changes")
    parser.add_argument("--at-least", type=float, help="fail unless the peer costs this many times more CPU at the largest N")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    python, ratio = peer_python(), None
    print("| N | | CPU ms a cycle | RSS MiB | first snapshot s | snapshot bytes |\n|---|---|---|---|---|---|")
    for n in args.n:
        rows = [measure("taskscope", taskscope(args.binary), args, n)]
        if python:
            rows.append(measure("metaflow_pyspy", peer(python), args, n))
            ratio = rows[1]["cpu_ms_per_cycle"] / max(rows[0]["cpu_ms_per_cycle"], 0.1)
        for row in rows:
            print("| {n} | {name} | {cpu_ms_per_cycle} | {rss_mib} | {first_snapshot_s} | {snapshot_bytes} |".format(**row))
        if python:
            print("| %d | peer / taskscope | %.2f | %.2f | | |" % (n, ratio, rows[1]["rss_mib"] / rows[0]["rss_mib"]))
        if args.json:
            print("\n".join(json.dumps(row) for row in rows))
    if args.at_least and (ratio is None or ratio < args.at_least):
        raise SystemExit("the ratio is %s, not at least %s" % (ratio, args.at_least))


if __name__ == "__main__":
    main()
