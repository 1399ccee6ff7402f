#!/usr/bin/env python3
"""The part of a cycle that reads /proc, beside a loop that only opens and reads the same files.

    python3 tests/bench/floor.py [--n 64]

`taskscope attach` watches N Pythons without Python stacks and plugins; what its captures cost is what they say themselves
(`capture.cpu_ms`, which covers its helpers and the formed snapshot, but not its encoding). strace lists once which files, links
and folders of /proc they look at in a cycle; floor.rs then looks at the same, of the same processes, as many times. Needs
strace and rustc.
"""

import os
import re
import statistics
import subprocess
import tempfile

import watched

COLUMNS = ["n", "files", "links", "folders", "taskscope_ms", "floor_ms", "taskscope_over_floor", "load"]
OPENED = re.compile(r'open(?:at)?\(.*?"([^"]*)", ([A-Z_|]+).*\) = \d+<(/proc[^>]*)>')
LINK = re.compile(r'readlinkat\((?:\d+<([^>]*)>|AT_FDCWD[^,]*), "([^"]*)"|readlink\("([^"]*)"')


def steps(pids, watch):
    """What the processes `pids` look at in one cycle, as lines for floor.rs."""
    attached = [word for pid in pids for word in ("-p", str(pid))]
    with tempfile.NamedTemporaryFile() as log:
        tracer = subprocess.Popen(["strace", "-f", "-qq", "-y", "-e", "trace=open,openat,readlink,readlinkat", "-o", log.name,
                                   *attached], stderr=subprocess.DEVNULL)
        # strace attaches within the first cycle; the second is whole, and the spaces between cycles separate them.
        marks = []
        for _ in range(3):
            watch.next()
            marks.append(os.path.getsize(log.name))
        tracer.terminate()
        tracer.wait()
        text = open(log.name, errors="replace").read()[marks[1]:marks[2]]
    found = []
    for line in text.splitlines():
        opened, link = OPENED.search(line), LINK.search(line)
        if opened:
            path = opened.group(3)
            if "O_PATH" not in opened.group(2):
                found.append(("list " if "O_DIRECTORY" in opened.group(2) else "file ") + path)
        elif link:
            path = os.path.join(link.group(1) or "", link.group(2) or link.group(3) or "")
            if path.startswith("/proc"):
                found.append("link " + path)
    return found


def main():
    parser = watched.arguments(__doc__)
    parser.add_argument("--n", type=int, default=64)
    args = parser.parse_args()
    program = os.path.join(watched.ROOT, "target", "bench-floor")
    subprocess.run(["rustc", "-O", "--edition", "2024", "-o", program, os.path.join(watched.HERE, "floor.rs")], check=True)
    with watched.Tree(args.n) as tree:
        command = watched.taskscope(args.binary, watched.NO_PLUGINS + watched.NO_STACKS)
        with watched.Watch(command, tree.pid, args.interval) as watch:
            watch.settle()
            costs = [watch.cycle()[1]["capture"]["cpu_ms"] for _ in range(args.cycles)]
            found = steps(watched.family(watch.process.pid), watch)
        floor = subprocess.run([program, str(2 * args.cycles + 1)], input="\n".join(found), text=True, check=True, capture_output=True)
    ours, least = statistics.median(costs), float(floor.stdout)
    kinds = {kind: sum(line.startswith(kind) for line in found) for kind in ("file", "link", "list")}
    row = {"name": "floor", "n": args.n, "files": kinds["file"], "links": kinds["link"], "folders": kinds["list"],
           "taskscope_ms": round(ours, 2), "floor_ms": least, "taskscope_over_floor": round(ours / least, 2),
           "load": round(os.getloadavg()[0], 1)}
    watched.table([row], COLUMNS, args.json)


if __name__ == "__main__":
    main()
