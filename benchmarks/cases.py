"""The rows of the benchmark: one computation in Morok, NumPy, PyTorch and JAX, and in float64 to check them all."""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Call = Callable[[], Any]


@dataclass
class Case:
    """A row. Each builder takes the inputs, in that library's arrays, and gives a function of no arguments to be timed."""
    name: str
    inputs: list[np.ndarray]
    morok: Callable[..., Any]
    numpy: Callable[..., Any] | None
    torch: Callable[..., Any] | None
    jax: Callable[..., Any] | None
    reference: Callable[..., np.ndarray]
    work: str = ""
    rtol: float = 1e-4
    extra: dict[str, Any] = field(default_factory=dict)


def rand(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape, dtype=np.float32)


def softmax64(a: np.ndarray) -> np.ndarray:
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def gelu64(a: np.ndarray) -> np.ndarray:
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


def numpy_gelu(a: np.ndarray) -> np.ndarray:
    return np.float32(0.5) * a * (1 + np.tanh(np.float32(math.sqrt(2 / math.pi)) * (a + np.float32(0.044715) * a * a * a)))


def numpy_softmax(a: np.ndarray) -> np.ndarray:
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def numpy_layernorm(a: np.ndarray) -> np.ndarray:
    return (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + np.float32(1e-5))


def cases(torch: Any, jax: Any) -> list[Case]:
    """All rows; peers that are not installed are None."""
    F = torch.nn.functional if torch else None
    jnp, nn, lax = (jax.numpy, jax.nn, jax.lax) if jax else (None, None, None)
    out = []
    for n in (256, 512, 1000, 1024, 2048):
        out.append(Case(f"matmul {n}", [rand(n, n), rand(n, n, seed=1)], lambda a, b: a @ b, lambda a, b: a @ b, lambda a, b: a @ b, lambda a, b: a @ b,
                        lambda a, b: a @ b, f"{2 * n ** 3 / 1e9:.2f} GF"))
    out.append(Case("matmul+bias+relu 1024", [rand(1024, 1024), rand(1024, 1024, seed=1), rand(1024)], lambda a, b, c: (a @ b + c).relu(),
                    lambda a, b, c: np.maximum(a @ b + c, 0), lambda a, b, c: torch.addmm(c, a, b).relu_(), lambda a, b, c: jnp.maximum(a @ b + c, 0),
                    lambda a, b, c: np.maximum(a @ b + c, 0)))
    out.append(Case("matvec 4096", [rand(4096, 4096), rand(4096)], lambda a, v: a @ v, lambda a, v: a @ v, lambda a, v: a @ v, lambda a, v: a @ v, lambda a, v: a @ v))
    out.append(Case("batched matmul 32x128x64x128", [rand(32, 128, 64), rand(32, 64, 128)], *[lambda a, b: a @ b] * 5))
    out.append(Case("elementwise chain 4096x1024", [rand(4096, 1024), rand(4096, 1024, seed=1)], *[lambda x, y: (x * y + x) * 0.5 - y * 0.25] * 5))
    out.append(Case("gelu 4096x1024", [rand(4096, 1024)], lambda x: x.gelu(), numpy_gelu, lambda x: F.gelu(x, approximate="tanh"), lambda x: nn.gelu(x, approximate=True), gelu64))
    big = rand(4096, 4096)
    out.append(Case("sum all 4096x4096", [big], lambda x: x.sum(), lambda x: x.sum(), lambda x: x.sum(), lambda x: x.sum(), lambda x: x.sum(), rtol=1e-2))
    out.append(Case("sum rows 4096x4096", [big], *[lambda x: x.sum(1)] * 5))
    out.append(Case("sum columns 4096x4096", [big], *[lambda x: x.sum(0)] * 5))
    out.append(Case("softmax 4096x1024", [rand(4096, 1024)], lambda x: x.softmax(-1), numpy_softmax, lambda x: torch.softmax(x, -1), lambda x: nn.softmax(x, -1), softmax64))
    out.append(Case("layernorm 4096x1024", [rand(4096, 1024)], lambda x: x.layernorm(), numpy_layernorm, lambda x: F.layer_norm(x, (1024,)),
                    lambda x: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5), lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)))
    out.append(Case("transpose 4096x4096", [big], lambda x: x.T.contiguous(), lambda x: np.ascontiguousarray(x.T), lambda x: x.t().contiguous(), lambda x: x.T.copy(), lambda x: x.T))
    x, w = rand(4, 64, 56, 56), rand(64, 64, 3, 3) * 0.1
    out.append(Case("conv2d 3x3 4x64x56x56", [x, w], lambda x, w: x.conv2d(w, padding=1), None, lambda x, w: F.conv2d(x, w, padding=1),
                    lambda x, w: lax.conv(x, w, (1, 1), "SAME"), lambda x, w: conv64(x, w, 1)))
    out.append(Case("conv2d 1x1 4x64x56x56", [x, rand(64, 64, 1, 1)], lambda x, w: x.conv2d(w), None, lambda x, w: F.conv2d(x, w), lambda x, w: lax.conv(x, w, (1, 1), "SAME"),
                    lambda x, w: conv64(x, w, 0)))
    out.append(Case("depthwise conv 3x3 4x64x56x56", [x, rand(64, 1, 3, 3)], lambda x, w: x.conv2d(w, groups=64, padding=1), None, lambda x, w: F.conv2d(x, w, padding=1, groups=64),
                    lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=64), lambda x, w: conv64(x, w, 1, 64)))
    q, k, v = (rand(8, 512, 64, seed=s) for s in range(3))
    out.append(Case("attention 8x512x64", [q, k, v], lambda q, k, v: q.scaled_dot_product_attention(k, v), lambda q, k, v: numpy_softmax(q @ k.transpose(0, 2, 1) * np.float32(0.125)) @ v,
                    lambda q, k, v: F.scaled_dot_product_attention(q, k, v), lambda q, k, v: nn.softmax(q @ k.transpose(0, 2, 1) * 0.125, -1) @ v,
                    lambda q, k, v: softmax64(q @ k.transpose(0, 2, 1) * 0.125) @ v))
    out.append(Case("cumsum rows 4096x1024", [rand(4096, 1024)], lambda x: x.cumsum(1), lambda x: x.cumsum(1), lambda x: x.cumsum(1), lambda x: x.cumsum(1), lambda x: x.cumsum(1)))
    out.append(Case("argmax rows 4096x4096", [big], lambda x: x.argmax(1), lambda x: x.argmax(1), lambda x: x.argmax(1), lambda x: x.argmax(1), lambda x: x.argmax(1)))
    idx = np.random.default_rng(0).integers(0, 30000, 8192)
    out.append(Case("embedding 8192 of 30000x768", [rand(30000, 768), idx], lambda e, i: e[i], lambda e, i: e[i], lambda e, i: F.embedding(i, e), lambda e, i: e[i], lambda e, i: e[i.astype(np.int64)]))
    out.append(Case("add 16", [rand(16), rand(16, seed=1)], *[lambda a, b: a + b] * 5))
    return out
