"""What the system tells about this machine: cores, caches and memory that this process may use. `root` is the root of the file system."""
from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path("/")
UNKNOWN = 1 << 62                # bytes, where the system does not tell


def usable_cores(root: Path = ROOT) -> int:
    """Cores of this process: its affinity, and the quotas of its control group and of those above it, rounded up."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for group in _groups(root, "cpu"):
        quota, _, period = _word(group / "cpu.max").partition(" ")                               # version 2: "max 100000" or "150000 100000"
        if not quota:
            quota, period = _word(group / "cpu.cfs_quota_us"), _word(group / "cpu.cfs_period_us")   # version 1: -1 is no limit
        if quota.isdigit() and period.isdigit() and int(period):
            cores = min(cores, max(1, -(-int(quota) // int(period))))
    return cores


def available_memory(root: Path = ROOT) -> int:
    """Bytes that can be had without swapping: what the system has, and what the limits of the control groups leave."""
    out = UNKNOWN
    for line in _word(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            out = int(line.split()[1]) << 10
    for group in _groups(root, "memory"):
        limit, used = _word(group / "memory.max"), _word(group / "memory.current")
        if not limit:
            limit, used = _word(group / "memory.limit_in_bytes"), _word(group / "memory.usage_in_bytes")
        if limit.isdigit() and used.isdigit():
            out = min(out, max(0, int(limit) - int(used) + _file_cache(group)))
    return out


def cache_size(level: int, default: int, root: Path = ROOT) -> int:
    """Bytes of the first core's data cache of this level."""
    base = root / "sys/devices/system/cpu/cpu0/cache"
    for entry in sorted(base.glob("index*")):
        if _word(entry / "level") == str(level) and _word(entry / "type") in ("Data", "Unified"):
            size = _word(entry / "size")
            if size[:-1].isdigit() and size[-1] in "KMG":
                return int(size[:-1]) << {"K": 10, "M": 20, "G": 30}[size[-1]]
    return default


def _word(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _file_cache(group: Path) -> int:
    """Bytes of a control group that the system takes back when they are needed."""
    for line in _word(group / "memory.stat").splitlines():
        name, _, size = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file") and size.isdigit():
            return int(size)
    return 0


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Folders of the control groups that this process is in for `controller`, the inner before the outer; in a container only the root may be seen."""
    for line in _word(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if number == "0" and not names:
            base = root / "sys/fs/cgroup"                       # version 2: one tree
        elif controller in names.split(","):
            base = root / "sys/fs/cgroup" / controller          # version 1: a tree a controller
        else:
            continue
        inner = PurePosixPath(path.lstrip("/"))
        for folder in (inner, *inner.parents):
            yield base / folder
