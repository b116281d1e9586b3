"""Two result files of run.py side by side: how Morok's times changed, row by row."""
from __future__ import annotations

import json
import sys
from typing import Any


def rows(path: str) -> dict[str, Any]:
    with open(path, encoding="utf-8") as f:
        return {r["name"]: r for r in json.load(f)["rows"]}


def main(before: str, after: str) -> None:
    """Print name, both best times in ms with their spread (median / best), the quotient, over 1 where Morok is faster now, and both ratios to the fastest peer."""
    old, new = rows(before), rows(after)
    print(f"{'':32}{'before ms':>11}{'spread':>8}{'after ms':>11}{'spread':>8}{'faster':>8}{'ratio was':>11}{'is':>7}")
    for name in (n for n in old if n in new):
        sides = [(r["seconds"]["morok"], r["median"]["morok"] / r["seconds"]["morok"]) for r in (old[name], new[name])]
        columns = "".join(f"{best * 1e3:11.3f}{spread:8.2f}" for best, spread in sides)
        print(f"{name:32}{columns}{sides[0][0] / sides[1][0]:8.2f}{old[name]['ratio']:11.2f}{new[name]['ratio']:7.2f}")
    for name in sorted(set(old) ^ set(new)):
        print(f"{name:32} only {'before' if name in old else 'after'}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: compare.py BEFORE.json AFTER.json")
    main(sys.argv[1], sys.argv[2])
