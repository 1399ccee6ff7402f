#!/usr/bin/env python3
"""Whether cost grows with what there is to look at, and no faster.

    python3 tests/bench/linear.py [--n 8 64 256 512] [--open 0 1000 12000]

Processes of 8 threads, forked from one parent; then four processes that hold many descriptors between them (devices, pipes,
files): of one process 4,096 are read. CPU for one more process or descriptor should be about constant, and memory small.
"""

import watched

HOLDERS = 4
COLUMNS = ["name", "n", "cpu_ms", "cpu_ms_each", "duration_ms", "rss_mib", "pss_mib", "snapshot_bytes", "cycles", "incomplete_cycles",
           "load"]


def rows_of(args):
    """First the sizes of a tree, then the numbers of descriptors."""
    command = watched.taskscope(args.binary, watched.NO_PLUGINS)
    for n in args.n:
        with watched.Tree(1, ["--fork", n, "--threads", 8], family=n) as tree:
            row = watched.measure("processes", command, tree, args, n, threads=8)
        yield {**row, "cpu_ms_each": round(row["cpu_ms"] / n, 3)}
    none = None
    for n in args.open:
        with watched.Tree(HOLDERS, ["--open", n // HOLDERS]) as tree:
            row = watched.measure("descriptors", command, tree, args, HOLDERS)
        none = row["cpu_ms"] if none is None else none
        yield {**row, "n": n, "cpu_ms_each": round((row["cpu_ms"] - none) / n, 4) if n else ""}


def main():
    parser = watched.arguments(__doc__, cycles=5, interval=4.0)
    parser.add_argument("--n", type=int, nargs="*", default=[8, 64, 256, 512])
    parser.add_argument("--open", type=int, nargs="*", default=[0, 1000, 12000])
    args = parser.parse_args()
    watched.table(rows_of(args), COLUMNS, args.json)


if __name__ == "__main__":
    main()
