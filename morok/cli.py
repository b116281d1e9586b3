"""The command line: `python -m morok env` lists the environment variables."""
from __future__ import annotations

import sys

from . import knobs


def main(args: list[str] | None = None) -> int:
    """Run a command; the exit status."""
    words = sys.argv[1:] if args is None else args
    if words == ["env"]:
        for k in knobs.ALL:
            key = ", changes generated code" if k.in_cache_key else ""
            print(f"{' or '.join(k.names):24} {k.kind:5} default {k.default!r:12} {k.help}{key}")
        return 0
    print("usage: python -m morok env     list the environment variables", file=sys.stderr)
    return 2
