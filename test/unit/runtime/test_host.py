"""Cores, caches and memory, read from small file systems made for the test."""
import os

import pytest

from morok.runtime.host import UNKNOWN, available_memory, cache_size, usable_cores

CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


@pytest.fixture
def system(tmp_path):
    def write(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
        return tmp_path
    return write


def tree(system, files):
    return system(**{name.replace("/", "__"): text for name, text in files.items()})


def test_cores_without_control_groups(system):
    assert usable_cores(system()) == CPUS


@pytest.mark.parametrize("limit, cores", [("max 100000", CPUS), ("100000 100000", 1), ("1000 100000", 1), ("100001 100000", min(2, CPUS)), ("junk", CPUS), ("", CPUS)])
def test_quota_of_version_2(system, limit, cores):
    assert usable_cores(tree(system, {"proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/b/cpu.max": limit})) == cores


def test_quota_of_an_outer_group_counts(system):
    files = {"proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/cpu.max": "50000 100000", "sys/fs/cgroup/a/b/cpu.max": "max 100000"}
    assert usable_cores(tree(system, files)) == 1


def test_a_container_sees_only_its_root(system):
    assert usable_cores(tree(system, {"proc/self/cgroup": "0::/not/mounted/here", "sys/fs/cgroup/cpu.max": "100000 100000"})) == 1


@pytest.mark.parametrize("quota, cores", [("-1", CPUS), ("100000", 1)])
def test_quota_of_version_1(system, quota, cores):
    files = {"proc/self/cgroup": "4:memory:/x\n3:cpu,cpuacct:/x", "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": quota, "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000"}
    assert usable_cores(tree(system, files)) == cores


def test_memory(system):
    assert available_memory(system()) == UNKNOWN
    files = {"proc/meminfo": "MemTotal: 9000 kB\nMemAvailable:    8000 kB", "proc/self/cgroup": "0::/a"}
    assert available_memory(tree(system, files)) == 8000 << 10
    files |= {"sys/fs/cgroup/a/memory.max": "4000000", "sys/fs/cgroup/a/memory.current": "3000000", "sys/fs/cgroup/a/memory.stat": "anon 5\ninactive_file 500000"}
    assert available_memory(tree(system, files)) == 1500000
    files["sys/fs/cgroup/a/memory.max"] = "max"
    assert available_memory(tree(system, files)) == 8000 << 10


def test_memory_of_version_1(system):
    files = {"proc/self/cgroup": "4:memory:/", "sys/fs/cgroup/memory/memory.limit_in_bytes": "1000", "sys/fs/cgroup/memory/memory.usage_in_bytes": "1300"}
    assert available_memory(tree(system, files)) == 0


def test_caches(system):
    base = "sys/devices/system/cpu/cpu0/cache/"
    files = {base + "index0/level": "1", base + "index0/type": "Instruction", base + "index0/size": "64K",
             base + "index1/level": "1", base + "index1/type": "Data", base + "index1/size": "48K",
             base + "index2/level": "3", base + "index2/type": "Unified", base + "index2/size": "2M"}
    root = tree(system, files)
    assert [cache_size(n, 7, root) for n in (1, 2, 3)] == [48 << 10, 7, 2 << 20]
