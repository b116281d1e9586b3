"""Activation functions against their formulas in NumPy's float64."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from lazy_tensor import Lazy
from morok import DTypeError, Tensor
from morok.dtype import dtypes
from reference import elu, gelu, sigmoid, softplus


def test_activations_against_their_formulas(rng: np.random.Generator) -> None:
    x = rng.uniform(-6, 6, 200)
    erf = np.vectorize(math.erf)
    formulas: dict[str, Any] = {
        "gelu": gelu(x), "quick_gelu": x * sigmoid(1.702 * x), "silu": x * sigmoid(x),
        "swish": x * sigmoid(x), "mish": x * np.tanh(softplus(x)), "softsign": x / (1 + abs(x)), "elu": elu(x), "relu": np.maximum(x, 0),
        "relu6": np.clip(x, 0, 6), "leaky_relu": np.where(x > 0, x, x * 0.01), "hardtanh": np.clip(x, -1, 1), "hardsigmoid": np.clip(x / 6 + 0.5, 0, 1),
        "hardswish": x * np.clip(x + 3, 0, 6) / 6}
    for name, want in formulas.items():
        np.testing.assert_allclose(getattr(Lazy(x), name)().numpy(), want, rtol=1e-13, atol=1e-15, err_msg=name)
        assert getattr(Lazy([-1, 2]), name)().dtype is (dtypes.int64 if name in ("relu", "relu6", "hardtanh") else dtypes.float32), name
    for got, want in [(Lazy(x).gelu("none"), 0.5 * x * (1 + erf(x * math.sqrt(0.5)))), (Lazy(x).softplus(2.0), softplus(2 * x) / 2), (Lazy(x).elu(0.5), np.where(x > 0, x, np.expm1(x) / 2)),
                      (Lazy(x).leaky_relu(0.2), np.where(x > 0, x, x * 0.2)), (Lazy(x).hardtanh(-2, 3), np.clip(x, -2, 3)), (Lazy(x).hardsigmoid(0.2, 0.4), np.clip(x * 0.2 + 0.4, 0, 1))]:
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-13, atol=1e-15)
    with pytest.raises(DTypeError, match="approximate"):
        Lazy(x).gelu("erf")


@pytest.mark.parametrize("make", [Lazy, Tensor], ids=["interpreted", "compiled"])
def test_sigmoid_far_out(make: Any) -> None:
    np.testing.assert_allclose(make(np.array([-80.0], np.float32)).sigmoid().numpy(), [1.8048513878e-35], rtol=1e-6)
