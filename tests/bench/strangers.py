#!/usr/bin/env python3
"""What processes that are no business of ours add to a cycle.

    python3 tests/bench/strangers.py [--n 64] [--strangers 1000]

One collector over one tree: some cycles alone, some beside 1,000 sleeping processes of somebody else, some alone again.
"""

import os
import signal
import statistics
import subprocess

import watched

COLUMNS = ["n", "strangers", "alone_ms", "beside_ms", "alone_again_ms", "added_percent", "cycles", "load"]


def main():
    parser = watched.arguments(__doc__, cycles=6)
    parser.add_argument("--n", type=int, default=64)
    parser.add_argument("--strangers", type=int, default=1000)
    args = parser.parse_args()
    with watched.Tree(args.n) as tree, watched.Watch(watched.taskscope(args.binary), tree.pid, args.interval) as watch:
        def cost():
            watch.cycle()  # one that saw the change half-way
            return [watch.cycle()[2] for _ in range(args.cycles)]
        watch.settle()
        alone = cost()
        script = 'i=0; while [ $i -lt $1 ]; do sleep 1000 & i=$((i+1)); done; echo ready; wait'
        crowd = subprocess.Popen(["sh", "-c", script, "crowd", str(args.strangers)], stdout=subprocess.PIPE,
                                 start_new_session=True)
        try:
            crowd.stdout.readline()
            beside = cost()
        finally:
            os.killpg(crowd.pid, signal.SIGKILL)
            crowd.wait()
            crowd.stdout.close()
        again = cost()
    middle = statistics.median(alone + again)
    row = {"name": "strangers", "n": args.n, "strangers": args.strangers, "alone_ms": round(statistics.median(alone), 2),
           "beside_ms": round(statistics.median(beside), 2), "alone_again_ms": round(statistics.median(again), 2),
           "added_percent": round((statistics.median(beside) / middle - 1) * 100, 1), "cycles": args.cycles,
           "load": round(os.getloadavg()[0], 1)}
    watched.table([row], COLUMNS, args.json)


if __name__ == "__main__":
    main()
