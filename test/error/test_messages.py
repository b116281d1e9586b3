"""Each error that a user can make: its type, and that its message names what was asked, what was found and what to do."""
import os
import subprocess
import sys

import numpy as np
import pytest

from morok import (CompileError, DeviceError, DTypeError, IndexingError, KnobError, MorokError, OptError, OptStrategy, PrepareConfig, ResourceError, ShapeError,
                   Tensor, knobs)
from morok.optimizer import parse_opts


def realize_with(text):
    return (Tensor.ones(12).contiguous() + 1).realize_with(PrepareConfig(OptStrategy.explicit(parse_opts(text))))


def env(name, value):
    os.environ[name] = value
    try:
        (Tensor([1.0]) + 1).numpy()
    finally:
        del os.environ[name]


CASES = {
    "shapes": (lambda: Tensor.ones(2, 3) + Tensor.ones(4), ShapeError, ["(2, 3)", "(4,)", "broadcast"]),
    "matmul": (lambda: Tensor.ones(3, 4) @ Tensor.ones(3, 4), ShapeError, ["(3, 4)", "matmul", "equal"]),
    "axis": (lambda: Tensor.ones(2, 3).sum(2), ShapeError, ["axis 2", "(2, 3)", "-2 to 1"]),
    "axis kind": (lambda: Tensor.ones(2, 3).sum(1.5), ShapeError, ["1.5"]),
    "sizes": (lambda: Tensor.ones(2, 3).reshape("a"), ShapeError, ["reshape", "whole", "'a'"]),
    "sizes of expand": (lambda: Tensor.ones(1, 3).expand(2.5, 3), ShapeError, ["expand", "2.5"]),
    "sizes of a kernel": (lambda: Tensor.ones(1, 1, 4, 4).max_pool2d("k"), ShapeError, ["kernel_size", "'k'"]),
    "shrink": (lambda: Tensor.ones(2, 3).shrink(3), ShapeError, ["(2, 3)", "3", "(start, end)"]),
    "fill": (lambda: Tensor.full((2,), "a"), DTypeError, ["fill_value", "'a'"]),
    "embedding swapped": (lambda: Tensor.ones(2, 3).embedding(Tensor([0, 1])), DTypeError, ["float32", "indices.embedding(weight)"]),
    **{name: (lambda name=name: getattr(Tensor.ones(2, 3), name)("a"), DTypeError, ["str 'a'", "Tensor"])
       for name in ("dot", "matmul", "linear", "outer", "conv2d", "cross_entropy", "nll_loss", "sparse_categorical_crossentropy", "binary_crossentropy",
                    "binary_crossentropy_logits", "maximum", "assign")},
    "reshape": (lambda: Tensor.ones(2, 3).reshape(4, 2), ShapeError, ["(2, 3)", "(4, 2)", "6"]),
    "cat": (lambda: Tensor.ones(3).cat(Tensor.ones(3, 1)), ShapeError, ["(3,)", "(3, 1)"]),
    "max of nothing": (lambda: Tensor.zeros(0).max(), ShapeError, ["max", "(0,)"]),
    "dtype": (lambda: Tensor([1], dtype="float12"), DTypeError, ["float12", "float32"]),
    "does not fit": (lambda: Tensor([300], dtype="uint8"), DTypeError, ["300", "uint8", "255"]),
    "scalar does not fit": (lambda: Tensor([1], dtype="int8") + 200, DTypeError, ["200", "int8", "127"]),
    "complex": (lambda: Tensor(np.array([1j])), DTypeError, ["complex128"]),
    "objects": (lambda: Tensor(["a"]), DTypeError, ["integers or floats"]),
    "no array": (lambda: Tensor({}), DTypeError, ["dict"]),
    "ragged": (lambda: Tensor([[1, 2], [3]]), ShapeError, ["different lengths"]),
    "in place division": (lambda: Tensor([1, 2]).__itruediv__(2), DTypeError, ["/=", "int64", "//="]),
    "in place shape": (lambda: Tensor([1]).__iadd__(Tensor([1, 2])), ShapeError, ["+=", "(1,)", "(2,)"]),
    "assign": (lambda: Tensor([1]).assign(Tensor([1, 2])), ShapeError, ["(1,)", "(2,)"]),
    "bits of floats": (lambda: Tensor([1.0]) & 1, DTypeError, ["float32", "cast"]),
    "shift of floats": (lambda: Tensor([1.0]) << 1, DTypeError, ["float32"]),
    "minus of bool": (lambda: Tensor([True]) - Tensor([True]), DTypeError, ["bool"]),
    "bitcast": (lambda: Tensor([1.0]).bitcast("int8"), DTypeError, ["4 bytes", "1 bytes"]),
    "negative power": (lambda: Tensor([2]) ** -1, DTypeError, ["-1", "float"]),
    "index": (lambda: Tensor([1, 2, 3])[3], IndexingError, ["3"]),
    "index list": (lambda: Tensor([1, 2, 3])[[0, 5]], IndexingError, ["5", "3"]),
    "too many indices": (lambda: Tensor([1])[0, 0], IndexError, ["(1,)"]),
    "item": (lambda: Tensor([1, 2]).item(), ShapeError, ["(2,)"]),
    "truth": (lambda: bool(Tensor([1, 2])), ShapeError, ["any()"]),
    "length": (lambda: len(Tensor(1)), ShapeError, ["scalar"]),
    "step 0": (lambda: Tensor.arange(0, 5, 0), ShapeError, ["step"]),
    "negative size": (lambda: Tensor.zeros(-1), ShapeError, ["-1"]),
    "randint": (lambda: Tensor.randint(3, low=5, high=5), ShapeError, ["5"]),
    "rand of ints": (lambda: Tensor.rand(3, dtype="int32"), DTypeError, ["int32", "randint"]),
    "device": (lambda: Tensor([1], device="TPU"), DeviceError, ["TPU", "CPU"]),
    "device number": (lambda: Tensor([1], device="CPU:1"), DeviceError, ["CPU:1", "known"]),
    "device from the environment": (lambda: env("MOROK_DEVICE", "GPU"), DeviceError, ["GPU", "CPU"]),
    "cuda": (lambda: Tensor([1], device="CUDA"), DeviceError, ["CUDA", "not available"]),
    "memory": (lambda: Tensor.ones(1 << 50).contiguous().realize(), ResourceError, ["memory", str(1 << 52), "limit"]),
    "env": (lambda: env("MOROK_NOOPT", "maybe"), KnobError, ["MOROK_NOOPT", "maybe", "1 or 0"]),
    "env number": (lambda: env("DEBUG", "much"), KnobError, ["DEBUG", "much"]),
    "env threads": (lambda: env("MOROK_THREADS", "-2"), KnobError, ["MOROK_THREADS", "-2", "0 or more"]),
    "env filter": (lambda: env("DEBUG", "a@matmul"), KnobError, ["DEBUG", "a@matmul", "3@"]),
    "knob value": (lambda: knobs.scope(MOROK_NOOPT="maybe").__enter__(), KnobError, ["MOROK_NOOPT", "maybe", "1 or 0"]),
    "unknown knob": (lambda: knobs.scope(NOPE=1).__enter__(), KnobError, ["NOPE", "MOROK_NOOPT"]),
    "opts text": (lambda: parse_opts("JUMP(1)"), OptError, ["JUMP", "UPCAST"]),
    "opts junk": (lambda: parse_opts("UPCAST(0,4) and more"), OptError, ["and more"]),
    "opts amount": (lambda: realize_with("UPCAST(0,5)"), OptError, ["5", "12", "PADTO"]),
    "opts axis": (lambda: realize_with("UPCAST(3,4)"), OptError, ["axis 3"]),
    "opts kind": (lambda: realize_with("UNROLL(0,4)"), OptError, ["REDUCE"]),
    "no config": (lambda: Tensor([1.0]).realize_with("x"), DTypeError, ["PrepareConfig", "'x'"]),
    "opts twice": (lambda: realize_with("UPCAST(0,4) THREAD(0) THREAD(0)"), OptError, ["thread"]),
}


@pytest.mark.parametrize("name", CASES)
def test_message(name):
    call, kind, words = CASES[name]
    with pytest.raises(kind) as e:
        call()
    for w in words:
        assert w in str(e.value), f"{w!r} is not in: {e.value}"
    if kind is not Exception and kind is not IndexError:
        assert isinstance(e.value, MorokError)


def test_memory_can_be_had_after_a_refusal():
    with pytest.raises(MemoryError):
        Tensor.ones(1 << 50).contiguous().realize()
    assert (Tensor.ones(1000).contiguous() + 1).sum().item() == 2000


def test_a_failing_compile_names_the_line_and_keeps_the_source(monkeypatch):
    """The code generator is made to write nonsense: the error shows the tensor line and carries the text."""
    from morok import compiler
    real = compiler.lower

    def broken(*args, **kw):
        p = real(*args, **kw)
        return type(p)(**{**p.__dict__, "source": p.source.replace("ret void", "return nothing", 1)})
    monkeypatch.setattr(compiler, "lower", broken)
    x = Tensor.ones(77).contiguous() * 1.2345          # this line
    with pytest.raises(CompileError) as e:
        x.numpy()
    assert "test_messages.py:" in str(e.value) and "return nothing" in e.value.source


def test_errors_are_also_the_usual_python_ones():
    assert issubclass(ShapeError, ValueError) and issubclass(DTypeError, TypeError) and issubclass(IndexingError, IndexError)
    assert issubclass(ResourceError, MemoryError) and issubclass(DeviceError, RuntimeError)


def test_env_command_lists_all_knobs():
    out = subprocess.run([sys.executable, "-m", "morok", "env"], capture_output=True, text=True, check=True).stdout
    for k in knobs.ALL:
        assert k.names[0] in out
