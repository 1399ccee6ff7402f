#!/usr/bin/env python3
"""What the page of a long run costs: a browser's first paint, moving through time, memory; and what the server answers.

    cargo build --release && python3 tests/bench/view.py [--snapshots 10000] [--at-most]

A run of so many snapshots, made of a real one of four ranks (long_run.py), is served by `taskscope view` and looked at in a
headless Chromium. Then both it and flashruntime's viewer, with as much as that ever reads of a run (500 metrics, 150 ticks, 100 lines,
four heartbeats), are asked by eight clients at a time, in turns, each request over a connection of its own; CPU is that of the
server, its children included. Last, a thousand polls at once while others say nothing.
"""

import http.client
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

import long_run
import watched

CHROMIUM = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")
LIMITS = {"first_paint_ms": 200, "paint_ms": 200, "scrub_ms": 100, "page_mib": 300}
CLIENTS = 8
#: flashruntime's viewer over a run directory; prints its address.
PEER = """
import sys, threading
from flashruntime.viewer.server import RunViewerServer
print(RunViewerServer(sys.argv[1]).start(), flush=True)
sys.stdin.read()
"""


class Served:
    """A server that prints its address, in a process of its own."""

    def __init__(self, command, stream):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, **{stream: subprocess.PIPE})
        line = getattr(self.process, stream).readline().decode()
        self.url = urllib.parse.urlsplit(line[line.index("http://"):].strip())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def ask(self, path):
        connection = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=60)
        connection.request("GET", self.url.path + path, headers={"Connection": "close"})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        if answer.status != 200:
            raise SystemExit("%s: %d %s" % (path, answer.status, body[:200]))
        return body

    def cpu_ms(self):
        return watched.cpu_ms([self.process.pid])

    def memory_mib(self):
        """Now, and the most so far."""
        with open("/proc/%d/status" % self.process.pid) as file:
            facts = dict(line.split(":", 1) for line in file if line.startswith("Vm"))
        return [round(int(facts[name].split()[0]) / 1024, 1) for name in ("VmRSS", "VmHWM")]


def peer_run(folder):
    """A run directory with as much as flashruntime's viewer ever reads of one."""
    attempt = pathlib.Path(folder) / "local" / "task-000"
    (attempt / "ranks").mkdir(parents=True)
    row = {"pid": 1, "ppid": 0, "cmd": "python3 train.py", "cpu_percent": 99.0, "rss_bytes": 1 << 30, "create_time": 1.5e9, "status": "running"}
    machine = {"hostname": "a", "cpu_count": 8, "load_avg": [1.0, 1.0, 1.0], "cpu_percent": 50.0, "mem_total": 1 << 34, "mem_used": 1 << 33,
               "gpus": [], "limited": False}
    ticks = [json.dumps({"ts": 1.5e9 + 2 * tick, "machine": machine, "processes": [dict(row, pid=pid) for pid in range(5)]}) for tick in range(150)]
    (attempt / "telemetry.jsonl").write_text("\n".join(ticks) + "\n")
    (attempt / "metrics.jsonl").write_text("".join('{"step": %d, "loss": 0.5}\n' % step for step in range(500)))
    (attempt / "launcher.log").write_text("a line of the log of a training run\n" * 100)
    for rank in range(4):
        beat = {"rank": rank, "local_rank": rank, "pid": rank, "device": "cpu", "backend": "gloo", "world_size": 4, "step": 7, "ts": 1.5e9}
        (attempt / "ranks" / ("rank-%d.json" % rank)).write_text(json.dumps(beat))
    run = {"contract": "viewer_v1", "workload": {"command": ["python3", "train.py"], "mode": "local", "source": "."}, "state": "RUNNING",
           "started_at": 1.5e9, "finished_at": None, "max_restarts": 0, "events": [], "trials": [],
           "attempts": [{"attempt_id": "task-000", "job_id": "local", "state": "RUNNING", "pid": "1", "started_at": 1.5e9, "finished_at": None,
                         "output_dir": str(attempt)}]}
    (pathlib.Path(folder) / "run.json").write_text(json.dumps(run))


def asked(server, path, seconds):
    """Requests a second, their times and the server's CPU, with several clients at a time."""
    size = len(server.ask(path))
    times, end = [], time.monotonic() + seconds
    before = server.cpu_ms()

    def client():
        while time.monotonic() < end:
            begun = time.perf_counter()
            server.ask(path)
            times.append((time.perf_counter() - begun) * 1000)

    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - begun
    return {"kib": size / 1024, "per_s": len(times) / took, "ms": statistics.median(times), "p99_ms": sorted(times)[len(times) * 99 // 100],
            "cpu_ms": (server.cpu_ms() - before) / len(times)}


def versus(ours, theirs, args):
    """Both in turns; the medians of the turns."""
    asks = [("taskscope", ours, "", "the page"), ("taskscope", ours, "api/v1/timeline", "poll: time of a node"),
            ("taskscope", ours, "part/verdict", "poll: verdict"), ("taskscope", ours, "part/processes", "poll: processes")]
    if theirs:
        asks += [("flashruntime", theirs, "/", "the page"), ("flashruntime", theirs, "/api/state", "poll: state")]
    turns = {}
    for _ in range(args.rounds):
        for name, server, path, what in asks:
            turns.setdefault((name, what), []).append(asked(server, path, args.seconds))
    for (name, what), all_of in turns.items():
        medians = {key: round(statistics.median(one[key] for one in all_of), 2) for key in all_of[0]}
        yield {"server": name, "asked for": what, **medians, "load": round(os.getloadavg()[0], 1)}


def crowd(server, count=1000, silent=100):
    """A thousand polls at once beside clients that say nothing; returns how many were answered, and the seconds that took."""
    address = (server.url.hostname, server.url.port)
    mute = [socket.create_connection(address) for _ in range(silent)]
    request = ("GET %sapi/v1/run HTTP/1.1\r\nHost: %s:%d\r\nConnection: close\r\n\r\n" % (server.url.path, *address)).encode()
    begun, answered = time.monotonic(), 0
    polls = []
    for _ in range(count):
        polls.append(socket.create_connection(address, 60))
        polls[-1].sendall(request)
    for poll in polls:
        answered += poll.recv(12) == b"HTTP/1.1 200"
        poll.close()
    took = time.monotonic() - begun
    for one in mute:
        one.close()
    return answered, round(took, 2)


def browsed(server, args, python):
    chromium = next((path for path in CHROMIUM if os.path.exists(path)), None)
    if not (python and chromium):
        print("SKIPPED: no Chromium or no driver for it; nothing is looked at")
        return {}
    script = os.path.join(watched.HERE, "view_browser.py")
    said = subprocess.run([python, script, server.url.geturl(), chromium, str(args.loads), str(args.scrubs)], check=True, stdout=subprocess.PIPE)
    return json.loads(said.stdout)


def main():
    parser = watched.arguments(__doc__)
    parser.add_argument("--snapshots", type=int, default=10_000)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--loads", type=int, default=5)
    parser.add_argument("--scrubs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--store", help="of a run that was made before")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--at-most", action="store_true", help="fail where the page takes longer or more than it may")
    args = parser.parse_args()
    python = watched.peer_python("view-venv", "requirements-view.txt")
    folder = tempfile.mkdtemp(prefix="taskscope-view-")
    try:
        store = args.store or str(long_run.made(args.binary, folder, args.snapshots, ranks=args.ranks)[0])
        command = [args.binary, "view", store]
        with Served(command, "stderr") as ours:
            page = browsed(ours, args, python)
            rows = [{"what": name, **(value if isinstance(value, dict) else {"median": value})} for name, value in page.items()]
            rows.append({"what": "server_mib", "median": ours.memory_mib()[0], "most": ours.memory_mib()[1]})
            watched.table(rows, ["what", "median", "most"], args.json)
        os.mkdir(os.path.join(folder, "peer"))
        peer_run(os.path.join(folder, "peer"))
        peer = None if args.no_peer or not python else Served([python, "-c", PEER, os.path.join(folder, "peer")], "stdout")
        with Served(command, "stderr") as ours:
            print()
            watched.table(versus(ours, peer, args), ["server", "asked for", "kib", "per_s", "ms", "p99_ms", "cpu_ms", "load"], args.json)
            print("\n%d of 1000 polls at once beside 100 silent clients were answered, in %s s; server %s MiB now, %s MiB at most"
                  % (*crowd(ours), *ours.memory_mib()))
        if peer:
            peer.__exit__()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    most = {name: value["median"] if isinstance(value, dict) else value for name, value in page.items()}
    over = ["%s is %s, over %s" % (name, most[name], limit) for name, limit in LIMITS.items() if most.get(name, 0) > limit]
    if args.at_most and (over or not page):
        raise SystemExit("; ".join(over) or "nothing was looked at")


if __name__ == "__main__":
    main()
