"""What the benches share: a tree to watch, a collector that watches it, and what a cycle of it costs.

CPU is user and system time of the collector's whole family: itself and its live descendants by their CPU clocks, in
nanoseconds, and the children that they have reaped, in clock ticks. A cycle's cost is the difference between the moments
at which two snapshots came to lie in the store. RSS counts shared pages in every process that maps them; PSS counts them
once.
"""

import argparse
import glob
import gzip
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
RELEASE = os.path.join(ROOT, "target", "release", "taskscope")
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
DEADLINE = 120
PEER_MODULE = "metaflow_extensions.obpyspy.plugins.pyspy.collector"
CPU_CLOCK = 2  # CPUCLOCK_SCHED of the kernel: user and system time of a process, nanoseconds
#: Cycles at the start that never count: caches fill, plugins compile.
SKIPPED = 2
#: Codes of gaps that say that a cycle left something out.
INCOMPLETE = ("skipped", "timed_out", "failed", "torn", "truncated")
#: The defaults of settings, and those without plugins or without Python stacks.
NO_PLUGINS = "".join(
    '[[enricher]]\nname = "%s"\nenabled = false\n' % name for name in ("torchrun-ranks", "process-tags", "focus-files")
)
NO_STACKS = '[capture.stacks]\nsource = "off"\n'


class Tree:
    """A shell that is no Python, with `n` workers below it, in a session of its own."""

    def __init__(self, n, options=(), python=None, family=1, script="worker.py"):
        worker = [python or os.path.realpath(sys.executable), os.path.join(HERE, script)] + [str(one) for one in options]
        shell = 'n=$1; shift; i=0; while [ $i -lt $n ]; do RANK=$i WORLD_SIZE=$n "$@" & i=$((i+1)); done; wait'
        self.process = subprocess.Popen(["sh", "-c", shell, "tree", str(n)] + worker, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, start_new_session=True)
        self.pid = self.process.pid
        for _ in range(n * family):
            if self.process.stdout.readline() != b"ready\n":
                self.__exit__()
                raise SystemExit("a worker did not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.pid, signal.SIGKILL)
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


def cpu_ms(pids):
    """User and system time of `pids`, and of the children that they reaped."""
    total = 0.0
    for pid in pids:
        try:
            total += time.clock_gettime(~pid << 3 | CPU_CLOCK) * 1000
            total += sum(map(int, stat_fields(pid)[13:15])) * 1000 / TICK
        except OSError:
            continue
    return total


def resident(pids):
    """RSS and PSS of `pids`, MiB."""
    rss = pss = 0
    for pid in pids:
        try:
            with open("/proc/%d/smaps_rollup" % pid) as file:
                lines = dict(line.split()[:2] for line in list(file)[1:])
            rss, pss = rss + int(lines["Rss:"]), pss + int(lines["Pss:"])
        except (OSError, KeyError):
            continue
    return rss / 1024, pss / 1024


def taskscope(binary, settings=""):
    def command(out, pid, interval):
        config = os.path.join(out, "collector.toml")
        with open(config, "w") as file:
            file.write(settings)
        return [binary, "attach", "--pid", str(pid), "--store", os.path.join(out, "store"), "--config", config, "--interval",
                "%dms" % (interval * 1000)]
    return command


def peer(python):
    def command(out, pid, interval):
        config = {"task": {"pathspec": "Bench/1/s/1", "flow": "Bench", "run": "1", "step": "s", "task": "1", "attempt": 0,
                           "node": "n", "host": "h"},
                  "task_pid": pid, "remote": False, "datastore_type": "local", "datastore_root": out,
                  "node_path": "Bench/1/s/1/attempt-0/diagnostics/node-n", "node_identity": "n",
                  "local_dir": os.path.join(out, ".pending"), "interval": interval, "timeout": 25, "process_pattern": None,
                  "nonblocking": True, "max_parallel": 8, "max_local_mb": 512, "focus_files": []}
        path = os.path.join(out, "config.json")
        with open(path, "w") as file:
            json.dump(config, file)
        return [python, "-m", PEER_MODULE, "--config", path]
    return command


def stored(out):
    """The paths of the snapshots below `out`, oldest first."""
    return sorted(glob.glob(os.path.join(out, "**", "snapshots", "*.json.gz"), recursive=True))


def read(path):
    with gzip.open(path) as file:
        return json.load(file)


def lack(snapshot, n, threads, depth):
    """What a snapshot left out of `n` processes with `threads` stacks of about `depth` frames; None if nothing."""
    stacks = [one["pyspy"]["traces"] for one in snapshot["processes"] if one.get("pyspy")]
    if len(stacks) != n:
        return "%d of %d processes have stacks" % (len(stacks), n)
    if any(len(traces) != threads for traces in stacks):
        return "a process has not %d stacks" % threads
    # The deepest is DEPTH frames, a lambda, and threading.py's own; --wake varies it by two.
    shortest = min(len(trace["frames"]) for traces in stacks for trace in traces)
    if shortest < depth - 2:
        return "a stack has only %d frames" % shortest
    bad = [gap for gap in snapshot.get("gaps", ()) if gap["code"] in INCOMPLETE]
    if bad:
        return "gap %s: %s, %s" % (bad[0]["what"], bad[0]["code"], bad[0].get("detail"))
    if any(one["outcome"] != "ok" for one in snapshot.get("plugins", ())):
        return "a plugin did not run"
    if any(thread.get("wchan") is None or thread.get("syscall") is None for process in snapshot["processes"]
           for thread in process["proc"]["threads"]):
        return "a thread has no wchan or syscall"
    return None


class Watch:
    """A collector at work; its snapshots are met as they appear in the store."""

    def __init__(self, command, pid, interval):
        self.out, self.interval, self.known, self.peak = tempfile.mkdtemp(prefix="bench-"), interval, [], (0, 0)
        self.begun = time.monotonic()
        self.process = subprocess.Popen(command(self.out, pid, interval), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        shutil.rmtree(self.out, ignore_errors=True)

    def next(self):
        """The path of the next snapshot, when it is there."""
        until, sampled = time.monotonic() + DEADLINE, time.monotonic()
        while True:
            found = sorted(set(stored(self.out)) - set(self.known))
            if found:
                self.known.append(found[0])
                return found[0]
            if self.process.poll() is not None or time.monotonic() > until:
                raise SystemExit("no snapshot came")
            if time.monotonic() > sampled + 0.25:
                self.peak = tuple(map(max, self.peak, resident(family(self.process.pid))))
                sampled = time.monotonic()
            time.sleep(0.02)

    def settle(self):
        """Passes the cycles that never count; returns seconds from the start to the first snapshot."""
        first = None
        for _ in range(SKIPPED + 1):
            self.next()
            first = first or time.monotonic() - self.begun
        self.spent, self.peak = cpu_ms(family(self.process.pid)), (0, 0)
        return first

    def cycle(self):
        """The next snapshot's path, its document, and the CPU milliseconds since the one before it."""
        path = self.next()
        before, self.spent = self.spent, cpu_ms(family(self.process.pid))
        return path, read(path), self.spent - before


def measure(name, command, tree, args, n, threads=4, depth=20):
    """A row: what a cycle of a collector costs, over `args.cycles` cycles that left nothing out."""
    costs, durations, sizes, left_out = [], [], [], []
    with Watch(command, tree.pid, args.interval) as watch:
        first = watch.settle()
        while len(costs) < args.cycles:
            path, snapshot, cost = watch.cycle()
            reason = lack(snapshot, n, threads, depth)
            if reason:
                left_out.append(reason)
                if len(left_out) > 10 + 2 * args.cycles:
                    raise SystemExit("%s: too many cycles left something out, such as: %s" % (name, reason))
                continue
            costs.append(cost)
            durations.append(snapshot["capture"]["duration_ms"])
            sizes.append(os.path.getsize(path))
    rss, pss = watch.peak
    return {"name": name, "n": n, "cycles": len(costs), "incomplete_cycles": len(left_out),
            "cpu_ms": round(statistics.median(costs), 2), "cpu_ms_most": round(max(costs), 2),
            "duration_ms": round(statistics.median(durations), 1), "rss_mib": round(rss, 1), "pss_mib": round(pss, 1),
            "first_snapshot_s": round(first, 3), "snapshot_bytes": round(statistics.median(sizes)),
            "load": round(os.getloadavg()[0], 1)}


def peer_python(venv="bench-venv", requirements="requirements.txt"):
    """The interpreter of a venv with the peers; None where it cannot be made."""
    venv = os.path.join(ROOT, "target", venv)
    python = os.path.join(venv, "bin", "python")
    if os.path.exists(os.path.join(venv, "ready")):
        return python
    try:
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", os.path.join(HERE, requirements)], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print("no peer: %s" % error, file=sys.stderr)
        return None
    open(os.path.join(venv, "ready"), "w").close()
    return python


def dumps_ms(python, pids, rounds):
    """CPU milliseconds of one `py-spy dump --json` for each of `pids`, the median of some rounds, with nothing left out."""
    program, costs = os.path.join(os.path.dirname(python), "py-spy"), []
    for _ in range(rounds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        for pid in pids:
            subprocess.run([program, "dump", "--json", "--nonblocking", "--pid", str(pid)], check=True,
                           stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        costs.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000)
    return statistics.median(costs)


def arguments(doc, cycles=8, interval=2.0):
    """The options that all benches have. From here on SIGTERM ends them as Ctrl-C does, with all that they started."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=RELEASE)
    parser.add_argument("--cycles", type=int, default=cycles, help="how many count")
    parser.add_argument("--interval", type=float, default=interval)
    parser.add_argument("--json", help="append each row to this file as well")
    return parser


def table(rows, columns, path=None):
    """Prints `rows` as a table, each as soon as it is there, and appends them to `path`, one JSON line each; returns them."""
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns), flush=True)
    printed = []
    for row in rows:
        printed.append(row)
        print("| " + " | ".join(str(row.get(column, "")) for column in columns) + " |", flush=True)
        if path:
            with open(path, "a") as file:
                file.write(json.dumps(row) + "\n")
    return printed
