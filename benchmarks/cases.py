"""The rows of the benchmark: one computation in Morok, NumPy, PyTorch and JAX, and in float64 to check them all."""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

Compute = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """A row. inputs: makes the arrays; the others compute the result from them, each in its library's arrays; reference: from float64 arrays."""
    name: str
    inputs: Callable[[], list[np.ndarray]]
    morok: Compute
    numpy: Compute | None
    torch: Compute | None
    jax: Compute | None
    reference: Compute
    rtol: float = 1e-4


def alike(name: str, inputs: Callable[[], list[np.ndarray]], f: Compute, rtol: float = 1e-4) -> Case:
    """A row that all libraries write in the same way."""
    return Case(name, inputs, f, f, f, f, f, rtol)


def rand(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape, dtype=np.float32)


def softmax(a: Any) -> Any:
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layernorm(a: Any) -> Any:
    """In NumPy's or JAX's arrays."""
    return (a - a.mean(-1, keepdims=True)) / (a.var(-1, keepdims=True) + np.float32(1e-5)) ** np.float32(0.5)


def pair(n: int) -> list[np.ndarray]:
    return [rand(n, n), rand(n, n, seed=1)]


def gelu64(a: Any) -> Any:
    return 0.5 * a * (1 + np.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a ** 3)))


def conv64(x: np.ndarray, w: np.ndarray, pad: int, groups: int = 1) -> np.ndarray:
    n, c, h, wd = x.shape
    o, cg, kh, kw = w.shape
    p = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    oh, ow = h + 2 * pad - kh + 1, wd + 2 * pad - kw + 1
    out = np.zeros((n, o, oh, ow))
    for g in range(groups):
        xs, ws = p[:, g * cg:(g + 1) * cg], w[g * o // groups:(g + 1) * o // groups]
        for i in range(kh):
            for j in range(kw):
                out[:, g * o // groups:(g + 1) * o // groups] += np.einsum("nchw,oc->nohw", xs[:, :, i:i + oh, j:j + ow], ws[:, :, i, j], optimize=True)
    return out


def numpy_gelu(a: Any) -> Any:
    return np.float32(0.5) * a * (1 + np.tanh(np.float32(math.sqrt(2 / math.pi)) * (a + np.float32(0.044715) * a * a * a)))


def cases(torch: Any, jax: Any) -> list[Case]:
    """All rows. A peer that is None is not called."""
    return [*products(), *streams(torch, jax), *rows(torch, jax), *windows(torch, jax), *reads(torch, jax)]


def products() -> list[Case]:
    out = [alike(f"matmul {n}", partial(pair, n), lambda a, b: a @ b) for n in (256, 512, 1000, 1024, 2048)]
    out.append(Case("matmul+bias+relu 1024", lambda: [rand(1024, 1024), rand(1024, 1024, seed=1), rand(1024)],
                    morok=lambda a, b, c: (a @ b + c).relu(), numpy=lambda a, b, c: np.maximum(a @ b + c, 0), torch=lambda a, b, c: (c + a @ b).relu_(),
                    jax=lambda a, b, c: (a @ b + c).clip(0), reference=lambda a, b, c: np.maximum(a @ b + c, 0)))
    out.append(alike("matvec 4096", lambda: [rand(4096, 4096), rand(4096)], lambda a, v: a @ v))
    out.append(alike("batched matmul 32x128x64x128", lambda: [rand(32, 128, 64), rand(32, 64, 128)], lambda a, b: a @ b))
    return out


def streams(torch: Any, jax: Any) -> list[Case]:
    """Elementwise rows, sums and a transposition: memory decides."""
    square, tall = lambda: [rand(4096, 4096)], lambda: [rand(4096, 1024)]
    return [
        alike("elementwise chain 4096x1024", lambda: [rand(4096, 1024), rand(4096, 1024, seed=1)], lambda x, y: (x * y + x) * 0.5 - y * 0.25),
        Case("gelu 4096x1024", tall, morok=lambda x: x.gelu(), numpy=numpy_gelu, torch=lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
             jax=lambda x: jax.nn.gelu(x, approximate=True), reference=gelu64),
        alike("sum all 4096x4096", square, lambda x: x.sum(), rtol=1e-2),               # the sum nearly cancels
        alike("sum rows 4096x4096", square, lambda x: x.sum(1)),
        alike("sum columns 4096x4096", square, lambda x: x.sum(0)),
        Case("transpose 4096x4096", square, morok=lambda x: x.T.contiguous(), numpy=lambda x: np.ascontiguousarray(x.T), torch=lambda x: x.t().contiguous(),
             jax=lambda x: x.T.copy(), reference=lambda x: x.T),
    ]


def rows(torch: Any, jax: Any) -> list[Case]:
    """What goes along rows: normalizations, attention, scans."""
    tall = lambda: [rand(4096, 1024)]
    scale = np.float32(0.125)
    return [
        Case("softmax 4096x1024", tall, morok=lambda x: x.softmax(-1), numpy=softmax, torch=lambda x: torch.softmax(x, -1), jax=lambda x: jax.nn.softmax(x, -1),
             reference=softmax),
        Case("layernorm 4096x1024", tall, morok=lambda x: x.layernorm(), numpy=layernorm, torch=lambda x: torch.nn.functional.layer_norm(x, (1024,)),
             jax=layernorm, reference=layernorm),
        Case("attention 8x512x64", lambda: [rand(8, 512, 64, seed=s) for s in range(3)], morok=lambda q, k, v: q.scaled_dot_product_attention(k, v),
             numpy=lambda q, k, v: softmax(q @ k.transpose(0, 2, 1) * scale) @ v, torch=lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v),
             jax=lambda q, k, v: jax.nn.softmax(q @ k.transpose(0, 2, 1) * scale, -1) @ v, reference=lambda q, k, v: softmax(q @ k.transpose(0, 2, 1) * 0.125) @ v),
        alike("cumsum rows 4096x1024", tall, lambda x: x.cumsum(1)),
        alike("argmax rows 4096x4096", lambda: [rand(4096, 4096)], lambda x: x.argmax(1)),
    ]


def window(torch: Any, jax: Any, name: str, weight: tuple[int, ...], pad: int, groups: int) -> Case:
    return Case(f"{name} 4x64x56x56", lambda: [rand(4, 64, 56, 56), rand(*weight) * np.float32(0.1)],
                morok=lambda x, w: x.conv2d(w, padding=pad, groups=groups), numpy=None,
                torch=lambda x, w: torch.nn.functional.conv2d(x, w, padding=pad, groups=groups),
                jax=lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=groups),
                reference=lambda x, w: conv64(x, w, pad, groups))


def windows(torch: Any, jax: Any) -> list[Case]:
    return [window(torch, jax, "conv2d 3x3", (64, 64, 3, 3), 1, 1), window(torch, jax, "conv2d 1x1", (64, 64, 1, 1), 0, 1),
            window(torch, jax, "depthwise conv 3x3", (64, 1, 3, 3), 1, 64)]


def reads(torch: Any, jax: Any) -> list[Case]:
    """A table read at given rows, and an addition so small that only the call counts."""
    return [
        Case("embedding 8192 of 30000x768", lambda: [rand(30000, 768), np.random.default_rng(0).integers(0, 30000, 8192)], morok=lambda e, i: e[i],
             numpy=lambda e, i: e[i], torch=lambda e, i: torch.nn.functional.embedding(i, e), jax=lambda e, i: e[i], reference=lambda e, i: e[i.astype(np.int64)]),
        Case("mlp 64-128-128-10 batch 256", lambda: [rand(256, 64), rand(64, 128), rand(128, 128), rand(128, 10)],
             morok=lambda x, a, b, c: ((x @ a).relu() @ b).relu() @ c, numpy=lambda x, a, b, c: np.maximum(np.maximum(x @ a, 0) @ b, 0) @ c,
             torch=lambda x, a, b, c: torch.relu(torch.relu(x @ a) @ b) @ c, jax=lambda x, a, b, c: jax.numpy.maximum(jax.numpy.maximum(x @ a, 0) @ b, 0) @ c,
             reference=lambda x, a, b, c: np.maximum(np.maximum(x @ a, 0) @ b, 0) @ c),
        alike("add 16", lambda: [rand(16), rand(16, seed=1)], lambda a, b: a + b),
    ]
