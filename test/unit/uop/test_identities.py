"""Every rule on integers and bools is proved by z3; rules that hold for floats too are tried on all special values."""
from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from uop_exprs import loaded, number
from uop_z3 import equal

from morok.dtype import DType, dtypes
from morok.uop import Op, Pat, Rules, UOp
from morok.uop.identities import bool_rules, common_rules, exact_rules, float_rules, integer_rules
from morok.uop.interpret import evaluate_scalars, storage

EXACT = [dtypes.bool, dtypes.int8, dtypes.uint8, dtypes.index]
CONSTANTS = [0, 1, -1, 3, 100, -128]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 1.5, -2.25, 6e-8, -6e-8, 65504.0, -65504.0, float("inf"), float("-inf"), float("nan")]
BITS = (Op.AND, Op.OR, Op.XOR, Op.NOT, Op.SHL, Op.SHR)
COMPARES = (Op.CMPLT, Op.CMPLE, Op.CMPEQ, Op.CMPNE)
TABLES = {"common": common_rules, "bool": bool_rules, "exact": exact_rules, "integer": integer_rules, "float": float_rules}
CASES = [(f"{name}: {pat} [{i}]", pat, fn) for name, table in TABLES.items() for i, (pat, fn) in enumerate(table.rules)]


def leaves(dt: DType, slot: int) -> list[UOp]:
    """Unknown values of a type, with and without known limits."""
    if dt is dtypes.index:
        return [loaded(slot, 1, dt)]
    x = loaded(slot, 1, dt)
    return [x, (loaded(slot + 10, 1, dtypes.bool).cast(dt) + number(3 + 2 * slot, dt))] if dt.is_int else [x]


def instances(p: Pat, dt: DType, names: dict[str, UOp], r: random.Random) -> UOp | None:
    """A node that the pattern matches, whose value has dtype `dt`; None where the types do not fit."""
    if p.name in names:
        return names[p.name] if names[p.name].dtype is dt else None
    if p.kind is not None and not p.kind(dt):
        return None
    op = r.choice(p.ops) if p.ops else None
    if op is Op.CAST and dt is dtypes.index:
        return None                                             # z3 does not decide conversions to unbounded integers
    if (op in BITS and (dt.is_float or dt is dtypes.index)) or (op in (Op.NEG, Op.ABS) and dt.is_bool):
        return None                                             # no meaning, or none in z3
    if op is Op.CONST:
        u: UOp | None = number(p.arg if p.arg is True or p.arg is False or isinstance(p.arg, (int, float)) else r.choice(
            SPECIAL if dt.is_float else CONSTANTS), dt)
        if isinstance(p.arg, bool) and not dt.is_bool:
            return None
    elif op is None:
        u = r.choice(leaves(dt, len(names) + 1))
    else:
        below = [dt] * len(p.src or ())
        if op is Op.WHERE:
            below[0] = dtypes.bool
        if op in COMPARES or op is Op.CAST:
            below = [r.choice([*(EXACT[:3] if op is Op.CAST else EXACT), dtypes.int16, dtypes.float16, dtypes.float32])] * len(below)
        src = []
        for s, t in zip(p.src or (), below, strict=True):
            made = instances(s, t, names, r)
            if made is None:
                return None
            src.append(made)
        if op in COMPARES and not dt.is_bool:
            return None
        u = UOp(op, dt, tuple(src))
    if p.name and u is not None:
        names[p.name] = u
    return u


def floats_agree(u: UOp, v: UOp) -> None:
    slots = sorted({(n.arg.slot, n.dtype) for n in (*u.toposort(), *v.toposort()) if n.op is Op.PARAM})
    choices = [SPECIAL if dt.is_float else [0, 1] if dt.is_bool else [0, 1, 5, 100] for _, dt in slots]
    for values in itertools.product(*choices):
        arrays: list[np.ndarray] = [np.zeros(1)] * (1 + max((s for s, _ in slots), default=0))
        for (slot, dt), value in zip(slots, values, strict=True):
            arrays[slot] = np.array([value]).astype(storage(dt))
        a, b = evaluate_scalars([u, v], arrays)
        a, b = np.broadcast_arrays(a, b)
        assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f") and (a.dtype.kind != "f" or np.isnan(a).all() or (
            np.signbit(a) == np.signbit(b)).all()), (u.op, values, a, b)


@pytest.mark.parametrize(("pat", "fn"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_rule_holds(pat: Pat, fn: object) -> None:
    r, proved, table = random.Random(1), 0, Rules([(pat, fn)])
    for _ in range(400):
        u = instances(pat, r.choice([*EXACT, dtypes.float16, dtypes.float32]), {}, r)
        v = table(u) if u is not None else None
        if u is None or v is None:
            continue
        proved += 1
        assert v.dtype is u.dtype
        if any(n.dtype.is_float for n in (*u.toposort(), *v.toposort())):
            floats_agree(u, v)
        else:
            assert equal(u, v) is True, (u.op, u.dtype, u.src)
        if proved >= 8:
            break
    assert proved, "no instance of this rule was made"
