"""Kernel → better kernel: actions on loops and the rules that choose them. Pure: knows no backend and no device."""
from .actions import apply_opt, apply_opts, parse_opts
from .heuristics import hand_coded
from .kernel import flops_bytes

__all__ = ["apply_opt", "apply_opts", "flops_bytes", "hand_coded", "parse_opts"]
