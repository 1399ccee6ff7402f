"""Makes a run of very many snapshots out of a short real one, as a collector would have stored it.

The four ranks of `examples/four-ranks` run for a while, one of them stops, and the collector stores what it sees. Then its time
is stretched: each snapshot becomes many, with identities and times of their own, and all times within them are moved along, so
that what stood still since an instant still does. Samples are repeated for each five minutes. Index and segments are as the
collector writes them.
"""

import datetime
import gzip
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "four-ranks"
TASK = "bench/long"
#: Entries of the index, and those of a segment, as in host/store/src/index.rs.
MOST_ENTRIES, SEALED = 256, 128
SEGMENT_S = 300
TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
EPOCH = datetime.datetime(1970, 1, 1)


def record(binary, folder, seconds, ranks):
    """Runs the example under a collector for some seconds; returns the folder of its node in the store."""
    job = pathlib.Path(folder) / "job"
    shutil.copytree(EXAMPLE, job)
    store = pathlib.Path(folder) / "recorded"
    command = [binary, "run", "--interval", "1s", "--store", str(store), "--name", TASK, "--", sys.executable, "launch.py",
               "--nproc-per-node", str(ranks), "train.py", "--stall-rank", str(min(2, ranks - 1))]
    with open(pathlib.Path(folder) / "job.log", "wb") as log:
        process = subprocess.Popen(command, cwd=job, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        time.sleep(seconds)
        process.send_signal(signal.SIGTERM)
        process.wait(120)
    [node] = (store / TASK / "attempt-0" / "diagnostics").glob("node-*")
    return node


def micros(text):
    """Microseconds since 1970 of a time in a document."""
    form = "%Y-%m-%dT%H:%M:%S.%fZ" if "." in text else "%Y-%m-%dT%H:%M:%SZ"
    return (datetime.datetime.strptime(text, form) - EPOCH) // datetime.timedelta(microseconds=1)


def iso(at):
    return (EPOCH + datetime.timedelta(microseconds=at)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def compact(at):
    return (EPOCH + datetime.timedelta(microseconds=at)).strftime("%Y%m%dT%H%M%S.%fZ")


def document(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


class Stretch:
    """What becomes of times: those of the short run, from its first snapshot on, `factor` times as far apart."""

    def __init__(self, first, last, span):
        self.first = first
        self.factor = span / max(1, last - first)

    def at(self, time_):
        return self.first + round((time_ - self.first) * self.factor)

    def text(self, text):
        """All times in a document."""
        known = {}

        def moved(found):
            word = found.group()
            if word not in known:
                known[word] = iso(self.at(micros(word.decode()))).encode()
            return known[word]

        return TIME.sub(moved, text)


def end(triggers):
    """The place of the snapshot that the job's end was the reason for."""
    return triggers.index("signal") if "signal" in triggers else len(triggers)


def stretch(node, job, store, count, interval_s):
    """Writes `count` snapshots into `store`; returns the folder of their node."""
    texts = [gzip.decompress(path.read_bytes()) for path in sorted((node / "snapshots").iterdir(), key=lambda it: it.name[-14:])]
    texts = [text.replace(str(job).encode(), b"/srv/job") for text in texts]
    # The end of the job is no part of it.
    triggers = [json.loads(text)["capture"]["trigger"] for text in texts]
    texts = [text for text, trigger in zip(texts[:end(triggers)], triggers) if trigger == "interval"]
    starts = [micros(json.loads(text)["capture"]["started_at"]) for text in texts]
    step = interval_s * 1_000_000
    moved = Stretch(starts[0], starts[-1], count * step)
    target = pathlib.Path(store) / TASK / "attempt-0" / "diagnostics" / node.name
    for folder in ("snapshots", "index", "samples", "obituaries"):
        (target / folder).mkdir(parents=True)
    listed = json.loads((node / "index.json").read_bytes())["snapshots"]
    listed = [entry for entry in listed[:end(triggers)] if entry["trigger"] == "interval"]
    entries, made, template = [], -1, None
    for sequence in range(count):
        at = starts[0] + sequence * step
        source = sum(moved.at(start) <= at for start in starts) - 1
        if source != made:
            made, template = source, Template(moved.text(texts[source]))
        capture_id = "%s-%06d" % (compact(at), sequence)
        body = gzip.compress(template.fill(capture_id, at, sequence), 6, mtime=0)
        path = target / "snapshots" / (capture_id + ".json.gz")
        path.write_bytes(body)
        entry = dict(listed[source], capture_id=capture_id, key=str(path.relative_to(store)), sequence=sequence,
                     started_at=iso(at), completed_at=iso(at + 20_000), size_bytes=len(body))
        entries.append(entry)
    index(node, target, entries)
    beside(node, target, moved, count * interval_s)
    return target


class Template:
    """A document with room for what makes a snapshot another one."""

    def __init__(self, text):
        value = json.loads(text)
        capture = value["capture"]
        capture.update(id="@id@", started_at="@start@", completed_at="@end@", sequence="@sequence@")
        self.text = document(value)

    def fill(self, capture_id, at, sequence):
        text = self.text.replace(b"@id@", capture_id.encode()).replace(b"@start@", iso(at).encode())
        return text.replace(b"@end@", iso(at + 20_000).encode()).replace(b'"@sequence@"', str(sequence).encode())


def index(node, target, entries):
    head = json.loads((node / "index.json").read_bytes())
    head.pop("sealed", None)
    sealed = entries[:max(0, len(entries) - MOST_ENTRIES + SEALED) // SEALED * SEALED]
    for begin in range(0, len(sealed), SEALED):
        part = sealed[begin:begin + SEALED]
        text = document(dict(head, snapshots=part, updated_at=part[-1]["completed_at"]))
        name = "%s_%s_%d_%08x.json.gz" % (part[0]["capture_id"], part[-1]["capture_id"], len(part), zlib.crc32(text))
        (target / "index" / name).write_bytes(gzip.compress(text, 6, mtime=0))
    if sealed:
        head["sealed"] = {"first_at": sealed[0]["started_at"], "last": sealed[-1]["capture_id"], "segments": len(sealed) // SEALED,
                          "size_bytes": sum(it["size_bytes"] for it in sealed), "snapshots": len(sealed)}
    head.update(snapshots=entries[len(sealed):], updated_at=entries[-1]["completed_at"])
    (target / "index.json").write_bytes(document(head))


def beside(node, target, moved, seconds):
    """Samples, ends and the report."""
    (target / "report.json").write_bytes(moved.text((node / "report.json").read_bytes()))
    for path in (node / "obituaries").iterdir():
        text = moved.text(gzip.decompress(path.read_bytes()))
        at = micros(json.loads(text)["obituaries"][0]["ended_at"])
        (target / "obituaries" / ("%s-%08x.json.gz" % (compact(at), zlib.crc32(text)))).write_bytes(gzip.compress(text, 6, mtime=0))
    segment = long_segment(json.loads(gzip.decompress(next((node / "samples").iterdir()).read_bytes())))
    for begin in range(0, seconds, SEGMENT_S):
        at = moved.first + begin * 1_000_000
        segment["at_usec"][0], segment["elapsed_usec"][0] = at, begin * 1_000_000
        text = document(segment)
        (target / "samples" / ("%s-%08x.json.gz" % (compact(at), zlib.crc32(text)))).write_bytes(gzip.compress(text, 6, mtime=0))


def long_segment(segment):
    """A segment of five minutes: what its samples say, again and again."""
    rows = len(segment["at_usec"])

    def column(values):
        rest = [it or 0 for it in values[1:]] + [0] * (rows - len(values))
        # What came in the beginning goes again, so that nothing grows for ever.
        if rest:
            rest[-1] -= sum(rest)
        return (values[:1] + rest * SEGMENT_S)[:SEGMENT_S]

    processes = []
    for process in segment["processes"]:
        columns = {name: column(process["columns"][name]) for name in ("cpu_ticks", "rss_4kib") if name in process["columns"]}
        columns["cpu_ticks"] = [process["columns"]["cpu_ticks"][0] or 0] + [7] * (SEGMENT_S - 1)
        if process["rows"][0][1] > rows // 2 and len(columns) == 2:
            processes.append(dict(process, columns=columns, rows=[[0, SEGMENT_S]], states=(process["states"] or "S")[0] * (SEGMENT_S // 30)))
    columns = {name: column(values) for name, values in segment["columns"].items() if not name.endswith(("_usec", "_msec"))}
    second = [1_000_000] * (SEGMENT_S - 1)
    return dict(segment, at_usec=[0] + second, elapsed_usec=[0] + second, columns=columns, processes=processes)


def made(binary, folder, count, interval_s=10, seconds=25, ranks=4):
    """Makes a run of `count` snapshots; returns its store and the node's folder in it."""
    store = pathlib.Path(folder) / "store"
    os.makedirs(store)
    node = record(binary, folder, seconds, ranks)
    return store, stretch(node, pathlib.Path(folder) / "job", store, count, interval_s)
