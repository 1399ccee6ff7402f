#!/usr/bin/env python3
"""What a snapshot weighs, beside metaflow_pyspy's of the same tree, and which fields the bytes are.

    python3 tests/bench/size.py [--n 64] [--fields 25]

Three figures for each: the object as it is stored; the whole document encoded again (compact JSON, sorted keys, gzip 6);
and what both have in common, which is every key that the peer's document has, encoded in the same way. With --fields, what
the object would save without each field of ours.
"""

import copy
import gzip
import json
import os

import watched

COLUMNS = ["name", "n", "object_bytes", "encoded_bytes", "common_bytes", "text_bytes", "taskscope_over_peer"]


def encoded(document):
    return gzip.compress(text(document), 6, mtime=0)


def text(document):
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def shape(values):
    """What keys occur in `values`: a dict of shapes for objects, a list of one shape for arrays, None for the rest."""
    objects = [one for one in values if isinstance(one, dict)]
    lists = [item for one in values if isinstance(one, list) for item in one]
    if objects:
        keys = {key for one in objects for key in one}
        return {key: shape([one[key] for one in objects if key in one]) for key in keys}
    return [shape(lists)] if any(isinstance(one, list) for one in values) else None


def common(value, form):
    """`value` without the keys that `form` does not have. The keys of a map of names are no keys of a schema."""
    if isinstance(value, dict) and isinstance(form, dict):
        return {key: common(one, form[key]) for key, one in value.items() if key in form}
    if isinstance(value, list) and isinstance(form, list):
        return [common(one, form[0]) for one in value]
    return value


def sample(command, tree, args):
    """The third snapshot of a collector, and the size of its object."""
    with watched.Watch(command, tree.pid, args.interval) as watch:
        watch.settle()
        path, snapshot, _ = watch.cycle()
        reason = watched.lack(snapshot, args.n, 4, 20)
        if reason:
            raise SystemExit(reason)
        return snapshot, os.path.getsize(path)


def paths(value, prefix=()):
    """Every path of keys that occurs; `*` for the items of a list."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield (*prefix, key)
            yield from paths(one, (*prefix, key))
    elif isinstance(value, list):
        for one in value:
            yield from paths(one, (*prefix, "*"))


def without(value, path):
    if path[0] == "*":
        for one in value if isinstance(value, list) else ():
            without(one, path[1:])
    elif isinstance(value, dict) and path[0] in value:
        if len(path) == 1:
            del value[path[0]]
        else:
            without(value[path[0]], path[1:])


def fields(snapshot, most):
    """What each field is worth: what the object would save without it."""
    whole = len(encoded(snapshot))
    rows = []
    for path in sorted(set(paths(snapshot))):
        if len(path) > 6:
            continue
        less = copy.deepcopy(snapshot)
        without(less, path)
        rows.append({"field": "/" + "/".join(path), "saves_bytes": whole - len(encoded(less)),
                     "text_bytes": len(text(snapshot)) - len(text(less))})
    rows.sort(key=lambda row: -row["saves_bytes"])
    return rows[:most]


def main():
    parser = watched.arguments(__doc__)
    parser.add_argument("--n", type=int, default=64)
    parser.add_argument("--fields", type=int, default=0, help="how many fields to list")
    parser.add_argument("--keep", help="write our document to this file")
    args = parser.parse_args()
    python = watched.peer_python()
    with watched.Tree(args.n) as tree:
        found = {"taskscope": sample(watched.taskscope(args.binary), tree, args)}
        if python:
            found["metaflow_pyspy"] = sample(watched.peer(python), tree, args)
    if args.keep:
        with open(args.keep, "w") as file:
            json.dump(found["taskscope"][0], file)
    form = shape([found["metaflow_pyspy"][0]]) if python else None
    rows = [{"name": name, "n": args.n, "object_bytes": size, "encoded_bytes": len(encoded(snapshot)),
             "text_bytes": len(text(snapshot)), "common_bytes": len(encoded(common(snapshot, form))) if form else ""}
            for name, (snapshot, size) in found.items()]
    if python:
        rows[0]["taskscope_over_peer"] = round(rows[0]["common_bytes"] / rows[1]["common_bytes"], 3)
    watched.table(rows, COLUMNS, args.json)
    if args.fields:
        watched.table(fields(found["taskscope"][0], args.fields), ["field", "saves_bytes", "text_bytes"])


if __name__ == "__main__":
    main()
