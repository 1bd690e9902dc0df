"""Looks for an IOMMU and for ACS of bridges, which may divert data between two GPUs on PCIe, and spoil it."""

from __future__ import annotations

import os
from collections.abc import Iterator

from .finding import Finding
from .system import System

_DEVICES = "sys/bus/pci/devices"
_BRIDGE, _NVIDIA = "0x0604", "0x10de"
_GPU_CLASSES = ("0x0300", "0x0302")
_PCIE_SPACE = 0x100  # extended capabilities begin here; only root may read them
_ACS = 0x000D
_REDIRECTS = 0x04 | 0x08  # request redirect, completion redirect
_MASK_20 = 0xFFC  # of the address of the next capability


def gpus(system: System) -> list[str]:
    """Addresses of NVIDIA's GPUs, whether they have a driver or not."""
    return [
        address
        for address in system.names(_DEVICES)
        if system.read(f"{_DEVICES}/{address}/vendor") == _NVIDIA
        and (system.read(f"{_DEVICES}/{address}/class") or "").startswith(_GPU_CLASSES)
    ]


def check(system: System) -> Iterator[Finding]:
    if not system.path(_DEVICES).is_dir():
        yield Finding.note("PCI is not checked: there is no /sys/bus/pci/devices here")
        return
    several = len(gpus(system)) > 1
    yield _iommu(system, several)
    yield _acs(system, several)


def _iommu(system: System, several_gpus: bool) -> Finding:
    groups = system.names("sys/kernel/iommu_groups")
    if not groups:
        return Finding.ok("no IOMMU is on")
    kinds = {system.read(f"sys/kernel/iommu_groups/{group}/type") for group in groups}
    options = (system.read("proc/cmdline") or "").split()
    if kinds == {"identity"} or "iommu=pt" in options:
        return Finding.ok("an IOMMU is on, and passes addresses through")
    says = "an IOMMU is on, and translates addresses"
    cause = "data that GPUs send each other over PCIe may be slow, or wrong without an error; NVLink is not concerned"
    remedy = "add iommu=pt to the kernel's command line (GRUB_CMDLINE_LINUX), then update-grub and reboot"
    return Finding.warning(says, cause, remedy) if several_gpus else Finding.note(says, cause, remedy)


def _acs(system: System, several_gpus: bool) -> Finding:
    bridges = [
        name for name in system.names(_DEVICES) if (system.read(f"{_DEVICES}/{name}/class") or "").startswith(_BRIDGE)
    ]
    if not bridges:
        return Finding.ok("there are no PCI bridges, so none with ACS")
    states = {bridge: _redirects(system, bridge) for bridge in bridges}
    on = [bridge for bridge, state in states.items() if state]
    if on:
        says = f"ACS redirects on {len(on)} of {len(bridges)} PCI bridges: {', '.join(on[:4])}{' …' if on[4:] else ''}"
        cause = "data between GPUs behind them goes through the root complex: slow, and with some boards it hangs"
        remedy = "; ".join(f"setpci -s {bridge} ECAP_ACS+6.w=0000" for bridge in on[:4])
        if on[4:]:
            remedy += "; the same for the others"
        return Finding.warning(says, cause, remedy) if several_gpus else Finding.note(says, cause, remedy)
    unread = sum(state is None for state in states.values())
    if unread:
        return Finding.note(f"ACS of {unread} of {len(bridges)} PCI bridges is not checked: only root may read it")
    return Finding.ok(f"ACS redirects nothing on {len(bridges)} PCI bridges")


def _redirects(system: System, bridge: str) -> bool | None:
    """None where the configuration space cannot be read as far as that."""
    try:
        with open(system.path(f"{_DEVICES}/{bridge}/config"), "rb") as file:
            space = file.read()
    except OSError:
        return None
    if len(space) <= _PCIE_SPACE:
        return _without_extended(system, bridge)
    at, seen = _PCIE_SPACE, set()
    while at and at not in seen and at + 8 <= len(space):
        seen.add(at)
        header = int.from_bytes(space[at : at + 4], "little")
        if header & 0xFFFF == _ACS:
            return bool(space[at + 6] & _REDIRECTS)
        at = header >> 20 & _MASK_20
    return False


def _without_extended(system: System, bridge: str) -> bool | None:
    """The kernel says how long the space is: a bridge of 256 bytes has no ACS, a longer one was not shown."""
    try:
        length = os.stat(system.path(f"{_DEVICES}/{bridge}/config")).st_size
    except OSError:
        return None
    return None if length > _PCIE_SPACE else False
