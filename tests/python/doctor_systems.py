"""False machines for tests of `plait doctor`: files below a folder, space of file systems, answers of programs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from plait.doctor import Finding, System
from plait.doctor.system import Answer, Space

LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max locked memory         {locked}              unlimited            bytes
Max open files            {files}                 524288               files
Max processes             {processes}             100000               processes
"""


class Fake:
    """A root without anything; a test adds what its machine has."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, ...]] = []
        self.spaces: dict[str, Space] = {}
        self.variables: dict[str, str] = {}

    def write(self, name: str, content: str | bytes = "") -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def shared_memory(self, size: int, free: int) -> None:
        (self.root / "dev/shm").mkdir(parents=True)
        self.spaces["dev/shm"] = Space(size, free)

    def pci(self, address: str, vendor: str, kind: str, config: bytes = bytes(256)) -> None:
        folder = f"sys/bus/pci/devices/{address}"
        for name, content in (("vendor", vendor), ("class", kind), ("config", config)):
            self.write(f"{folder}/{name}", content)

    def gpus(self, count: int) -> None:
        for number in range(count):
            self.pci(f"0000:{number + 1:02x}:00.0", "0x10de", "0x030200")

    def system(self) -> System:
        return System(self.root, self.variables, self._run, self._space)

    def _space(self, path: Path) -> Space | None:
        return self.spaces.get(str(path.relative_to(self.root)))

    def _run(self, command: tuple[str, ...], variables: Mapping[str, str], seconds: float) -> Answer:
        self.asked.append(tuple(command))
        kind = variables.get("PLAIT_PEER_MEMORY", "")
        line = " ".join([f"PLAIT_PEER_MEMORY={kind}"] * bool(kind) + list(command))
        for words, answer in self.answers.items():
            if words in line:
                return answer
        return Answer("", f"{command[0]} is not installed")


def said(findings: list[Finding]) -> list[tuple[str, str]]:
    """Severities and words."""
    return [(finding.severity.name.lower(), finding.says) for finding in findings]
