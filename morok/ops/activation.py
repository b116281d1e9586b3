"""Activation functions of networks, element by element."""
from __future__ import annotations

import math
from typing import Any, Self

from ..errors import DTypeError
from .base import Scalar
from .elementwise import ElementwiseOps, composed


class ActivationOps(ElementwiseOps):
    """Activations; of the tensor's dtype, integers of those with fractions become the default float."""

    def relu(self) -> Self:
        """max(self, 0); NaN stays."""
        return self.maximum(0)

    def relu6(self) -> Self:
        """min(max(self, 0), 6)."""
        return self.clip(0, 6)

    def leaky_relu(self, neg_slope: Any = 0.01) -> Self:
        """self, below 0 times neg_slope."""
        x = self._float_input()
        return (x < 0)._pick(x * neg_slope, x)

    @composed
    def elu(self, alpha: Any = 1.0) -> Self:
        """self, below 0 alpha * (exp(self) - 1)."""
        return (self < 0)._pick(self.minimum(0).expm1() * alpha, self)

    @composed
    def sigmoid(self) -> Self:
        """1 / (1 + exp(-self)), accurate on both tails."""
        return (1.0 + (-self).exp()).reciprocal()

    @composed
    def logsigmoid(self) -> Self:
        """log(sigmoid(self)), without overflow."""
        return -(-self).softplus()

    @composed
    def softplus(self, beta: Scalar = 1.0) -> Self:
        """log(1 + exp(beta * self)) / beta, without overflow."""
        x = self * beta
        return (x.maximum(0) + (-x.abs()).exp().log1p()) * (1 / beta)

    @composed
    def softsign(self) -> Self:
        """self / (1 + |self|)."""
        return self / (self.abs() + 1.0)

    @composed
    def silu(self) -> Self:
        """self * sigmoid(self)."""
        return self / ((-self).exp() + 1.0)

    def swish(self) -> Self:
        """Same as `silu`."""
        return self.silu()

    @composed
    def gelu(self, approximate: str = "tanh") -> Self:
        """Gaussian error linear unit; approximate: "tanh" for the usual approximation, "none" for the exact one by erf. DTypeError for another word."""
        if approximate not in ("tanh", "none"):
            raise DTypeError(f"approximate is \"tanh\" or \"none\", not {approximate!r}")
        if approximate == "none":
            return self * 0.5 * ((self * math.sqrt(0.5)).erf() + 1.0)
        v = self * (-2 * math.sqrt(2 / math.pi)) * (self * self * 0.044715 + 1.0)
        return self / (v.exp() + 1.0)                           # (1 + tanh(u)) / 2 is 1 / (1 + exp(-2u)), which loses nothing for negative u

    @composed
    def quick_gelu(self) -> Self:
        """self * sigmoid(1.702 * self)."""
        return self * (self * 1.702).sigmoid()

    def hardtanh(self, min_val: Any = -1, max_val: Any = 1) -> Self:
        """clip(self, min_val, max_val)."""
        return self.clip(min_val, max_val)

    @composed
    def hardsigmoid(self, alpha: Scalar = 1 / 6, beta: Scalar = 0.5) -> Self:
        """clip(alpha * self + beta, 0, 1)."""
        return (self * alpha + beta).clip(0, 1)

    @composed
    def hardswish(self) -> Self:
        """self * relu6(self + 3) / 6."""
        return self * (self + 3).relu6() * (1 / 6)

    @composed
    def mish(self) -> Self:
        """self * tanh(softplus(self))."""
        return self * self.softplus().tanh()
