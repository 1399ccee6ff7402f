#!/usr/bin/env python3
"""What judging a job and merging its stacks cost, of decoded snapshots.

    cargo build --release -p taskscope-diagnose --example judge
    python3 tests/bench/why.py --judge target/release/examples/judge

One rank of a job of 1,024 (64 on a node, 8 threads of 40 frames each) is behind the others. The first row judges three
snapshots of each node, which is enough of a rank that waits for what no thread of its own can give, the second seven; the third merges 10,000
stacks. `over_time_ms` merges those of all snapshots. Milliseconds are CPU time of
one core; the memory holds the snapshots too, no two of whose frames are one.
"""

import argparse
import subprocess

ROWS = [["1024", "8", "40", "3"], ["1024", "8", "40", "7"], ["1250", "8", "40", "1"]]
COLUMNS = ["ranks", "threads", "frames", "snapshots", "judge_ms", "stacks", "merge_ms", "over_time_ms", "places", "rss_mib", "straggler"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judge", required=True, help="the example `judge`")
    parser.add_argument("--rows", type=int, default=len(ROWS), help="only so many rows")
    parser.add_argument("--ranks", help="of so many ranks, for a quick look")
    args = parser.parse_args()
    print("| %s |\n|%s" % (" | ".join(COLUMNS), "---|" * len(COLUMNS)))
    for row in ROWS[:args.rows]:
        row = [args.ranks or row[0], *row[1:]]
        print(subprocess.run([args.judge, *row], check=True, stdout=subprocess.PIPE, text=True).stdout, end="", flush=True)


if __name__ == "__main__":
    main()
