"""What reading a store costs at scale, and how the bytes of an index grow.

Makes a store of one task with many nodes through the code of a collector (an entry for each snapshot, one in a thousand
stored), asks `taskscope list` for it, and prints CPU time, memory and the operations of the store by node; then the
index of one node that takes a snapshot each 10 s, day by day.

Usage: scale.py [--maker SCALE] [--binary TASKSCOPE] [--nodes N] [--snapshots N] [--days N]
Without --binary and --maker, the release build and its example `scale`, which are built where they are missing. Ends with 1
where a node takes more than two operations, or reading more than 256 MiB.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import tempfile


ROOT = pathlib.Path(__file__).resolve().parents[2]
RELEASE = ROOT / "target" / "release"
MOST_OPERATIONS = 2
MOST_MEBIBYTES = 256


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=str(RELEASE / "taskscope"))
    parser.add_argument("--maker", default=str(RELEASE / "examples" / "scale"))
    parser.add_argument("--nodes", type=int, default=1024)
    parser.add_argument("--snapshots", type=int, default=2880)
    parser.add_argument("--days", type=int, default=30)
    options = parser.parse_args()
    if not all(os.path.exists(program) for program in (options.binary, options.maker)):
        build = ["cargo", "build", "--release", "--locked", "--workspace", "--bins", "--example", "scale"]
        subprocess.run(build, cwd=ROOT, check=True)
    return options


def listed(options, store, environment):
    """Runs `list`; returns its rows, its words, CPU seconds and the largest RSS in MiB."""
    command = [options.binary, "list", "--json", store]
    with tempfile.TemporaryFile() as words:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=words, env={**os.environ, **environment}
        )
        text = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        words.seek(0)
        said = words.read().decode()
    if process.returncode:
        raise SystemExit(f"list ended with {process.returncode}: {said[-2000:]}")
    return json.loads(text), said, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def operations(said):
    """Counts the operations on nodes' folders by kind, from the log of the store, which has several lines for each."""
    found = re.findall(r"operation=(\w+), path=([^,)]*/node-[^,)]*)", said)
    return collections.Counter(kind for kind, _ in set(found))


def main():
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="taskscope-scale-") as root:
        store = str(pathlib.Path(root) / "job")
        make = [options.maker, "job", store, str(options.nodes), str(options.snapshots)]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
        rows, _, seconds, mebibytes = listed(options, store, {})
        assert len(rows) == options.nodes, len(rows)
        assert all(row["snapshots"] == options.snapshots for row in rows), rows[:3]
        _, said, _, _ = listed(options, store, {"TASKSCOPE_LOG": "taskscope_store=trace"})
        kinds = operations(said)
        print("| nodes | snapshots of each | CPU s | largest RSS MiB | operations on nodes | of each |")
        print("|---|---|---|---|---|---|")
        total = sum(kinds.values())
        each = total / options.nodes
        print(f"| {options.nodes} | {options.snapshots} | {seconds:.2f} | {mebibytes:.0f} | {total} | {each:.2f} |")
        print(f"\nBy kind: {dict(kinds)}\n", flush=True)
        month = str(pathlib.Path(root) / "month")
        subprocess.run([options.maker, "month", month, str(options.days)], check=True)
        if each > MOST_OPERATIONS or mebibytes > MOST_MEBIBYTES:
            raise SystemExit(f"at most {MOST_OPERATIONS} operations of a node and {MOST_MEBIBYTES} MiB are allowed")


main()
