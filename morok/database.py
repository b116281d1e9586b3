"""What processes share: records by kind and key in one folder of the user. A record that is damaged or not ours is a miss.

A record is written under a name of its own and then renamed, so whoever reads sees all of it or nothing, whatever becomes of the writer.
"""
from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import re
import tarfile
import tempfile
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

from . import knobs

MAGIC = b"morok record 1\n"
NAME = re.compile(r"(?P<key>[0-9a-f]{64})\.(?P<kind>[a-z]+)")
CHECK = 32                       # bytes of the checksum, after MAGIC
RECENT = 3600                    # seconds in which a use is not noted again
SPACING = 256                    # records between looks at the size of the folder
counters = {"hits": 0, "misses": 0, "written": 0}


def key_of(*parts: object) -> str:
    """A key made from the text of its parts."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()


@lru_cache(maxsize=1)
def code_version() -> str:
    """A hash of the package's own code: what another version of it has made is not found."""
    h = hashlib.sha256()
    root = Path(__file__).parent
    for path in sorted(root.rglob("*.py")):
        h.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return h.hexdigest()


def default_folder() -> Path:
    """Where records lie: MOROK_CACHE_DIR, else morok in the user's cache folder."""
    asked = knobs.MOROK_CACHE_DIR.get()
    return Path(asked) if asked else Path(knobs.XDG_CACHE_HOME.get() or Path.home() / ".cache") / "morok"


class Database:
    """Records in a folder. limit: bytes; when there are more, those unused for longest go. 0: nothing is read or written."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder, self.limit = folder, limit
        self._puts = os.getpid() % SPACING      # many short processes look now and then, not each at its first record
        self._lock = threading.Lock()

    def path(self, kind: str, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.{kind}"

    def get(self, kind: str, key: str) -> bytes | None:
        """The record, or None. What is damaged is deleted."""
        if not self.limit:
            return None
        path = self.path(kind, key)
        try:
            with open(path, "rb") as f:
                data = unpack(f.read(), key)
                stale = time.time() - os.fstat(f.fileno()).st_mtime > RECENT
        except OSError:
            data, stale = None, False
        else:
            if data is None:
                remove(path)
            elif stale:
                with contextlib.suppress(OSError):   # a folder that others wrote: its records are used, not renewed
                    os.utime(path)
        counters["misses" if data is None else "hits"] += 1
        return data

    def put(self, kind: str, key: str, data: bytes) -> bool:
        """Write a record; whether it is written. A folder that cannot be written to is told once."""
        if not self.limit:
            return False
        path = self.path(kind, key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=".new-", dir=path.parent)
            try:
                with os.fdopen(handle, "wb") as f:
                    f.write(pack(data, key))
                os.replace(name, path)
            except BaseException:
                remove(Path(name))
                raise
        except OSError as e:
            warn_once(f"the cache of compiled kernels in {self.folder} cannot be written: {e.strerror}. "
                      "Set MOROK_CACHE_DIR to a folder that can, or MOROK_DISK_LIMIT=0")      # not e itself: it names another file each time
            return False
        counters["written"] += 1
        with self._lock:
            self._puts += 1
            look = self._puts % SPACING == 1
        if look:
            with contextlib.suppress(OSError):       # someone deletes the whole folder just now
                self.evict()
        return True

    def get_or(self, kind: str, key: str, make: Callable[[], bytes]) -> bytes:
        """The record; made and written if there is none."""
        data = self.get(kind, key)
        if data is None:
            data = make()
            self.put(kind, key, data)
        return data

    def records(self) -> Iterator[tuple[Path, str, os.stat_result]]:
        """All records: path, kind, status."""
        for path in self.folder.glob("??/*"):
            match = NAME.fullmatch(path.name)
            try:
                if match is not None:
                    yield path, match["kind"], path.stat()
                elif path.name.startswith(".new-") and time.time() - path.stat().st_mtime > RECENT:
                    remove(path)                # its writer was killed
            except OSError:
                continue                        # another process deleted it just now

    def evict(self) -> None:
        """Delete what was not used for longest until nine tenths of the limit are left."""
        found = sorted((s.st_mtime, s.st_size, path) for path, _, s in self.records())
        total = sum(size for _, size, _ in found)
        if total <= self.limit:
            return
        for _, size, path in found:
            remove(path)
            total -= size
            if total <= self.limit * 0.9:
                break

    def info(self) -> dict[str, tuple[int, int]]:
        """How many records of each kind there are, and their bytes."""
        out: dict[str, tuple[int, int]] = {}
        for _, kind, status in self.records():
            n, size = out.get(kind, (0, 0))
            out[kind] = (n + 1, size + status.st_size)
        return out

    def clear(self) -> int:
        """Delete all records; how many there were."""
        found = [path for path, _, _ in self.records()]
        for path in found:
            remove(path)
        return len(found)

    def export(self, target: Path) -> int:
        """Write all sound records into one tar file; how many."""
        n = 0
        with tarfile.open(target, "w:gz") as tar:
            for path, kind, _ in sorted(self.records()):
                key = path.name.split(".")[0]
                if (data := self.get(kind, key)) is not None:      # the bytes that were checked: the file may be gone by now
                    member = tarfile.TarInfo(path.name)
                    member.size = len(raw := pack(data, key))
                    tar.addfile(member, io.BytesIO(raw))
                    n += 1
        return n

    def import_from(self, source: Path) -> tuple[int, int]:
        """Take in the records of an exported file; how many were taken, and how many were not: damaged, no records, or they could not be written.

        ValueError if it is no such file or damaged as a whole; the sound records before the damage are taken.
        """
        taken = skipped = 0
        try:
            with gzip.open(source) as unzipped, tarfile.open(fileobj=unzipped, mode="r:") as tar:
                for member in tar:
                    if self._take(tar, member):
                        taken += 1
                    else:
                        skipped += 1
                while unzipped.read(1 << 20):        # to its end, where the checksum is: damage can look like the last member
                    pass
        except (tarfile.TarError, zlib.error, EOFError, OSError) as e:
            raise ValueError(f"{source} cannot be read as an exported cache: {e}") from None
        return taken, skipped

    def _take(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> bool:
        """Write one member if it is a sound record."""
        match = NAME.fullmatch(member.name)
        if match is None or not member.isreg() or member.size > self.limit:
            return False
        f = tar.extractfile(member)
        data = unpack(f.read(), match["key"]) if f is not None else None
        return data is not None and self.put(match["kind"], match["key"], data)


def pack(data: bytes, key: str) -> bytes:
    return MAGIC + hashlib.sha256(key.encode() + data).digest() + data


def unpack(raw: bytes, key: str) -> bytes | None:
    """The data of a record of this key; None if it is anything else."""
    data = raw[len(MAGIC) + CHECK:]
    return data if raw == pack(data, key) else None


def remove(path: Path) -> None:
    """Delete a file if it is still there and ours to delete."""
    with contextlib.suppress(OSError):               # gone already, or in a folder that only others may change: then it stays
        path.unlink()


@lru_cache(maxsize=16)
def warn_once(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=4)


@lru_cache(maxsize=8)
def _open(folder: Path, limit: int) -> Database:
    return Database(folder, limit)


def database() -> Database:
    """The folder that the knobs name now; none is used if they name none and this user has no home."""
    try:
        return _open(default_folder(), knobs.MOROK_DISK_LIMIT.get())
    except RuntimeError:                             # of Path.home
        return _open(Path(os.devnull), 0)
