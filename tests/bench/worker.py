"""A Python process of known shape: THREADS threads, each parked DEPTH frames deep, until it is killed.

With --wake S each thread comes up and goes down again to another depth every S seconds, so that no stack stays the same.
Prints one line when every thread is started.
"""

import argparse
import sys
import threading


def descend(depth, leaf):
    return leaf() if depth <= 1 else descend(depth - 1, leaf)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--depth", type=int, default=20)
    parser.add_argument("--wake", type=float, default=None)
    args = parser.parse_args()
    never = threading.Event()

    def live():
        turn = 0
        while True:
            descend(args.depth - turn % 3, lambda: never.wait(args.wake))
            turn += 1

    for number in range(args.threads - 1):
        threading.Thread(target=live, daemon=True, name="worker-%d" % number).start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    live()


if __name__ == "__main__":
    main()
