"""Reads a store with the unmodified PySpy of metaflow_pyspy and prints what it sees as JSON.

Usage: pyspy_reader.py STORE PATHSPEC
"""

import json
import sys
import types

from metaflow import PySpy

root, pathspec = sys.argv[1:]
# All that PySpy asks of a Metaflow Task.
task = types.SimpleNamespace(
    pathspec=pathspec,
    current_attempt=0,
    metadata_dict={"ds-type": "local", "ds-root": root},
)
reader = PySpy(task)
snapshots = reader.snapshots()
try:
    reader.index("nobody")
    missing = None
except FileNotFoundError as error:
    missing = type(error).__name__
json.dump(
    {
        "root": reader.root,
        "nodes": reader.nodes(),
        "index": reader.index(reader.nodes()[0]),
        "snapshots": snapshots,
        "of_one_node": reader.snapshots(node=reader.nodes()[0]),
        "loaded": [reader.load(entry) for entry in snapshots],
        "by_key": reader.load(snapshots[0]["key"]),
        "latest": reader.latest(),
        "missing": missing,
    },
    sys.stdout,
)
