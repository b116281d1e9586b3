"""The record of a machine: equal machines have one key, each field that changes code is in it."""
from dataclasses import fields, replace

from morok.runtime.cpu import host_target
from morok.target import Target


def test_key_tells_machines_apart():
    base = Target(triple="x86_64", cpu="znver3", features="+avx2")
    assert base.key == Target(triple="x86_64", cpu="znver3", features="+avx2").key
    others = [replace(base, **{f.name: "other" if f.type == "str" else 3}) for f in fields(Target)]
    assert len({base.key, *(o.key for o in others)}) == len(fields(Target)) + 1


def test_the_host():
    t = host_target()
    assert t.vector_bytes in (16, 32, 64) and t.registers in (16, 32) and t.threads >= 1
    assert 4096 <= t.l1 <= t.l2
    assert t.cpu and t.triple and "native" not in (t.cpu, t.features)
