"""The command line: `python -m morok` with env, profile or cache."""
from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from . import knobs
from .database import database
from .errors import KnobError
from .profile import profile
from .roofline import roofline
from .runtime import get_device
from .runtime.buffer import allocator


def env() -> None:
    for k in knobs.ALL:
        key = ", changes generated code" if k.in_cache_key else ""
        print(f"{' or '.join(k.names):24} {k.kind:5} default {k.default!r:12} {k.help}{key}")


def profiled(script: str, *arguments: str) -> None:
    path, before = Path(script), sys.argv
    if not path.is_file():
        raise SystemExit(f"there is no script {script!r}")
    trace = Path(path.stem + ".trace.json")
    roofline(get_device(knobs.MOROK_DEVICE.get()))              # measured now, if it has to be
    allocator.peak = allocator.used
    with profile(roofline=True) as p:
        sys.argv, sys.path[:0] = [script, *arguments], [str(path.parent)]
        try:
            runpy.run_path(script, run_name="__main__")
        finally:                                # also of a script that ends by an exception or sys.exit
            sys.argv = before
            p.write_trace(trace)
            print(f"\n{p.table()}\npeak memory of tensors {allocator.peak / 2**20:.1f} MiB; {trace} can be opened in ui.perfetto.dev")


def cache_info() -> None:
    d = database()
    print(f"folder   {d.folder}")
    print(f"limit    {d.limit} bytes{'' if d.limit else ': it is not used'}")
    for kind, (n, size) in sorted(d.info().items()):
        print(f"{kind:8} {n} records, {size} bytes")


def cache_clear() -> None:
    print(f"{database().clear()} records deleted")


def cache_export(file: str) -> None:
    print(f"{database().export(Path(file))} records exported")


def cache_import(file: str) -> None:
    taken, skipped = database().import_from(Path(file))
    print(f"{taken} records imported, {skipped} skipped")


class Command(NamedTuple):
    """words: what calls it; takes: what has to follow, passed to `run`; fails: the exceptions whose text says why it failed."""
    words: tuple[str, ...]
    takes: tuple[str, ...]
    help: str
    run: Callable[..., None]
    fails: tuple[type[Exception], ...] = ()

    def fits(self, words: list[str]) -> bool:
        more = len(words) - len(self.words) - len(self.takes)
        return tuple(words[:len(self.words)]) == self.words and (more == 0 or (self.takes[-1:] == ("...",) and more >= -1))


COMMANDS = (
    Command(("env",), (), "list the environment variables", env),
    Command(("profile",), ("SCRIPT", "..."), "run a script; print its kernels, write SCRIPT.trace.json for ui.perfetto.dev", profiled),
    Command(("cache", "info"), (), "where compiled kernels are kept, how many and how large", cache_info, (KnobError,)),
    Command(("cache", "clear"), (), "delete them", cache_clear, (KnobError,)),
    Command(("cache", "export"), ("FILE",), "write them into one file, for another machine of this kind", cache_export, (OSError, KnobError)),
    Command(("cache", "import"), ("FILE",), "take in those of such a file; it is code that will run, so trust its maker", cache_import, (OSError, ValueError)),
)


def usage() -> str:
    """A line per command."""
    return "\n".join(["usage: python -m morok COMMAND", *(f"  {' '.join(c.words + c.takes):20} {c.help}" for c in COMMANDS)])


def main(args: list[str] | None = None) -> int:
    """Run a command; the exit status: 1 if it failed, 2 if there is no such command."""
    words = sys.argv[1:] if args is None else args
    command = next((c for c in COMMANDS if c.fits(words)), None)
    if command is None:
        print(usage(), file=sys.stderr)
        return 2
    try:
        command.run(*words[len(command.words):])
    except command.fails as e:
        print(e, file=sys.stderr)
        return 1
    return 0
