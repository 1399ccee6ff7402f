"""What reading a store costs at scale, and how the bytes of an index grow.

Makes a store of one task with many nodes through the code of a collector (an entry for each snapshot, one in a thousand
stored), asks `taskscope list` for it, and prints CPU time, memory and the operations of the store by node; then the
index of one node that takes a snapshot each 10 s, day by day.

Usage: scale.py --maker SCALE [--binary TASKSCOPE] [--nodes N] [--snapshots N] [--days N]
`cargo build --release -p taskscope-store --example scale` makes SCALE, which also does what `list` does where no
TASKSCOPE is given; then operations are not counted.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import tempfile


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary")
    parser.add_argument("--maker", required=True)
    parser.add_argument("--nodes", type=int, default=1024)
    parser.add_argument("--snapshots", type=int, default=2880)
    parser.add_argument("--days", type=int, default=30)
    return parser.parse_args()


def listed(options, store, environment):
    """Runs `list`; returns its rows, its words, CPU seconds and the largest RSS in MiB."""
    program = [options.binary, "list", "--json"] if options.binary else [options.maker, "read"]
    command = [*program, store]
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
        counted = f"{total} | {total / options.nodes:.2f}" if options.binary else "? | ?"
        print(f"| {options.nodes} | {options.snapshots} | {seconds:.2f} | {mebibytes:.0f} | {counted} |")
        print(f"\nBy kind: {dict(kinds)}\n", flush=True)
        month = str(pathlib.Path(root) / "month")
        subprocess.run([options.maker, "month", month, str(options.days)], check=True)


main()
