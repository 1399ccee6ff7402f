"""A Python process of known shape: THREADS threads, each parked DEPTH frames deep, until it is killed.

With --wake S each thread comes up and goes down again to another depth every S seconds, so that no stack stays the same.
With --fork N it forks N such processes, which share memory, and becomes `sleep`. With --open N it holds N descriptors.
Prints one line when every thread of every process is started.
"""

import argparse
import os
import resource
import sys
import threading


def descend(depth, leaf):
    return leaf() if depth <= 1 else descend(depth - 1, leaf)


def hold(count):
    """Open descriptors of four kinds, for good."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + 64, max(count + 64, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    for number in range(count // 4):
        os.open("/dev/null", os.O_RDONLY)
        os.pipe()
        os.open(__file__, os.O_RDONLY)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--depth", type=int, default=20)
    parser.add_argument("--wake", type=float, default=None)
    parser.add_argument("--fork", type=int, default=0)
    parser.add_argument("--open", type=int, default=0)
    args = parser.parse_args()
    hold(args.open)
    for _ in range(args.fork):
        if os.fork() == 0:
            break
    else:
        if args.fork:
            os.execvp("sleep", ["sleep", "infinity"])  # the parent is no Python
    never = threading.Event()

    def live():
        turn = 0
        while True:
            descend(args.depth - turn % 3, lambda: never.wait(args.wake))
            turn += 1

    for number in range(args.threads - 1):
        threading.Thread(target=live, daemon=True, name="worker-%d" % number).start()
    os.write(sys.stdout.fileno(), b"ready\n")
    live()


if __name__ == "__main__":
    main()
