#!/usr/bin/env python3
"""What one capture cycle costs, beside two peers in the same run.

    python3 tests/bench/cycle.py [--n 1 8 64] [--wake 0.5] [--no-peer] [--quick]

For each N: N Python processes of 4 threads, each 20 frames deep; then, one after the other over the same tree: `taskscope
attach` with its default plugin, the same without plugins, metaflow_pyspy, and N runs of `py-spy dump --json`. Only cycles
that left nothing out count, after the first two. The peers live in a venv that this makes under target/;
without a package index there are no peers and no ratios.
"""

import watched

COLUMNS = ["n", "wake_s", "name", "cpu_ms", "peer_over_taskscope", "duration_ms", "rss_mib", "pss_mib", "first_snapshot_s",
           "snapshot_bytes", "cycles", "incomplete_cycles", "load"]


def rows_of(n, args, python):
    """All collectors over one tree."""
    with watched.Tree(n, ["--wake", args.wake] if args.wake else []) as tree:
        def row(name, command):
            return watched.measure(name, command, tree, args, n)
        rows = [row("taskscope without plugins", watched.taskscope(args.binary, watched.NO_PLUGINS))]
        if not args.quick:
            rows.insert(0, row("taskscope", watched.taskscope(args.binary)))
        if python:
            rows.append(row("metaflow_pyspy", watched.peer(python)))
            workers = [pid for pid in watched.family(tree.pid) if pid != tree.pid]
            cost = watched.dumps_ms(python, workers, 3)
            rows.append({"name": "py-spy dump, each", "n": n, "cpu_ms": round(cost, 2), "cycles": 3})
    for one in rows:
        one["wake_s"] = args.wake
        if "taskscope" not in one["name"]:
            one["peer_over_taskscope"] = round(one["cpu_ms"] / rows[0]["cpu_ms"], 2)
    return rows


def main():
    parser = watched.arguments(__doc__)
    parser.add_argument("--n", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--wake", type=float, default=0, help="seconds between changes of every stack; 0: none changes")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--quick", action="store_true", help="taskscope without plugins alone: whether this bench still works, no figures")
    parser.add_argument("--at-least", type=float, help="fail unless metaflow_pyspy costs this many times more CPU at each N")
    args = parser.parse_args()
    python = None if args.no_peer or args.quick else watched.peer_python()
    rows = watched.table((row for n in args.n for row in rows_of(n, args, python)), COLUMNS, args.json)
    ratios = [row["peer_over_taskscope"] for row in rows if row["name"] == "metaflow_pyspy"]
    if args.at_least and (not ratios or min(ratios) < args.at_least):
        raise SystemExit("the ratios are %s, not at least %s" % (ratios, args.at_least))


if __name__ == "__main__":
    main()
