#!/usr/bin/env python3
"""Where the CPU of a cycle goes, by the clocks of processes and threads.

    python3 tests/bench/parts.py [--n 64]

One collector as it is by default. Its helpers are processes of their own; plugins and encoding have threads of their own; what
a capture costs it says itself (`capture.cpu_ms`, helpers included). The rest is storing and waking up.
"""

import os

import watched

COLUMNS = ["part", "n", "cpu_ms", "percent", "load"]


def threads_ms(pid):
    """CPU milliseconds of each named kind of thread of a process so far."""
    spent = {}
    for tid in os.listdir("/proc/%d/task" % pid):
        try:
            with open("/proc/%d/task/%s/comm" % (pid, tid)) as comm, open("/proc/%d/task/%s/schedstat" % (pid, tid)) as schedstat:
                name = comm.read().strip()
                spent[name] = spent.get(name, 0) + int(schedstat.read().split()[0]) / 1e6
        except OSError:
            continue
    return spent


def clocks(root):
    """The CPU milliseconds so far of: the whole family, its helpers, the kernel on its behalf, threads by name."""
    pids = watched.family(root)
    system = sum(int(watched.stat_fields(pid)[12]) for pid in pids) * 1000 / watched.TICK
    threads = threads_ms(root)
    return {"whole": watched.cpu_ms(pids), "helpers": watched.cpu_ms(pids[1:]), "kernel": system,
            "plugins": threads.get("plugins", 0) + threads.get("plugin-ticker", 0), "collector": threads.get("collector", 0)}


def main():
    parser = watched.arguments(__doc__)
    parser.add_argument("--n", type=int, default=64)
    args = parser.parse_args()
    with watched.Tree(args.n) as tree, watched.Watch(watched.taskscope(args.binary), tree.pid, args.interval) as watch:
        watch.settle()
        before, captures = clocks(watch.process.pid), 0
        for _ in range(args.cycles):
            captures += watch.cycle()[1]["capture"]["cpu_ms"] / args.cycles
        after = clocks(watch.process.pid)
    each = {name: (after[name] - before[name]) / args.cycles for name in after}
    parts = {"Python stacks (helpers)": each["helpers"], "/proc, questions to the kernel, forming": captures - each["helpers"],
             "plugins": each["plugins"], "encoding (the collector's own thread)": each["collector"],
             "storing, waking up": each["whole"] - captures - each["plugins"] - each["collector"],
             "all": each["whole"], "of it in the kernel": each["kernel"]}
    load = round(os.getloadavg()[0], 1)
    watched.table([{"part": name, "n": args.n, "cpu_ms": round(value, 2), "percent": round(100 * value / each["whole"], 1), "load": load}
                   for name, value in parts.items()], COLUMNS, args.json)


if __name__ == "__main__":
    main()
