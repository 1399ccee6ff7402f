#!/usr/bin/env python3
"""All benches, one after the other, as docs/performance.md shows them; about half an hour on a quiet machine.

    cargo build --release && python3 tests/bench/all.py [--json figures.jsonl] [--only cycle floor]
"""

import argparse
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BENCHES = {"cycle": [[], ["--n", "64", "--wake", "0.5"]], "parts": [[]], "floor": [[]], "size": [["--fields", "20"]], "linear": [[]],
           "sampling": [[]], "strangers": [[]], "stall": [[]], "mapping": [[]], "steps": [[]], "plugins": [[]], "day": [["--at-most"]],
           "stage": [["--stages", "1000000"]], "start": [[]], "view": [[]]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", help="append each row to this file as well")
    parser.add_argument("--only", nargs="+", choices=BENCHES, default=list(BENCHES))
    args = parser.parse_args()
    failed = []
    for name in args.only:
        for options in BENCHES[name]:
            shown = "python3 tests/bench/%s.py %s" % (name, " ".join(options))
            print("\n    %s\n" % shown.strip(), flush=True)
            more = ["--json", os.path.abspath(args.json)] if args.json else []
            if subprocess.run([sys.executable, os.path.join(HERE, name + ".py"), *options, *more]).returncode:
                failed.append(shown)
    if failed:
        raise SystemExit("failed: " + "; ".join(failed))


if __name__ == "__main__":
    main()
