"""Devices by name; a device is imported and started at its first use."""
from __future__ import annotations

import threading

from ..errors import DeviceError
from .device import Device

__all__ = ["Device", "get_device"]

_devices: dict[str, Device] = {}
_lock = threading.Lock()


def get_device(name: str) -> Device:
    """The device called `name`: "CPU" in any case, also "CPU:0". Raises DeviceError for others, and says what is missing."""
    found = _devices.get(name)
    if found is not None:
        return found
    kind = name.upper().removesuffix(":0")
    if kind.split(":")[0] == "CUDA":
        raise DeviceError(f"device {name!r} is not available in this version of morok, whatever the machine has; use \"CPU\"")
    if kind != "CPU":
        raise DeviceError(f"unknown device {name!r}; known devices: \"CPU\"")
    with _lock:
        if "CPU" not in _devices:
            from .cpu import CpuDevice
            _devices["CPU"] = CpuDevice()
        return _devices.setdefault(name, _devices["CPU"])
