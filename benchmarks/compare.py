"""Two result files of run.py side by side: how Morok's times changed, row by row."""
from __future__ import annotations

import json
import sys


def main(before: str, after: str) -> None:
    """Print name, both times in ms and their quotient; over 1 is faster now."""
    tables = []
    for path in (before, after):
        with open(path, encoding="utf-8") as f:
            tables.append({r["name"]: r["seconds"]["morok"] for r in json.load(f)["rows"]})
    for name, old in tables[0].items():
        if name in tables[1]:
            new = tables[1][name]
            print(f"{name:32}{old * 1e3:10.3f}{new * 1e3:10.3f}{old / new:8.2f}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: compare.py BEFORE.json AFTER.json")
    main(sys.argv[1], sys.argv[2])
