"""Comes to ports without being a rank: connects in many ways, or floods them with packets.

    stranger.py KINDS SECONDS ADDRESS PORT [ADDRESS PORT]...

KINDS is a list with commas between; see WAYS and FLOODS. All come at once, again and again, to all ports. Prints
`begun` when each has tried each port, and after so many seconds `reached N of M`, connections out of attempts; for
floods `sent N`.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator

Place = tuple[str, int]
# How many connections a crowd holds at a time, at all ports together.
CROWD = 300
# A connection that takes longer is given up.
CONNECT_SECONDS = 0.5


def family_of(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


# --- what is said over a connection ---


def plait_hello() -> bytes:
    """A Hello of rank 1 of 2, and a proof that is none. rendezvous.hpp has their layout."""
    hello = struct.pack("<8sIiiiQ", b"PltHello", 2, 1, 2, os.getpid(), 0) + os.urandom(16)
    return hello + os.urandom(16)


def ucx_message(kind: int, payload: bytes) -> bytes:
    return struct.pack("<BI", kind, len(payload)) + payload


def ucx_hello(place: Place) -> bytes:
    """What UCX says first over TCP, and then a request to write 64 bytes into the memory of the other process."""
    address, port = place
    magic = struct.pack("<Q", 0xCAFEBABE12345678)
    own = struct.pack("<H", family_of(address)) + struct.pack(">H", port)
    own += socket.inet_pton(family_of(address), address) + bytes(8)
    request = ucx_message(32, struct.pack("<BBQ", 1, 0, 0) + own)
    return magic + request + ucx_message(33, struct.pack("<QQI", 0x1000, 64, 1) + bytes(64))


Caller = Iterator[None]  # each step goes on with a connection that is there


def silent(stream: socket.socket, place: Place) -> Caller:
    while True:
        yield


def garbage(stream: socket.socket, place: Place) -> Caller:
    for _ in range(20):
        # No 8 bytes of it are UCX's first ones: what these lead to is another kind.
        stream.send(b"\x01" + os.urandom(random.randrange(1, 4096)))
        yield


def half_a_hello(stream: socket.socket, place: Place) -> Caller:
    stream.send(plait_hello()[: random.randrange(1, 48)])
    yield
    stream.shutdown(socket.SHUT_WR)
    yield


def hello_without_secret(stream: socket.socket, place: Place) -> Caller:
    stream.send(plait_hello())
    for _ in range(10):
        yield


def as_ucx(stream: socket.socket, place: Place) -> Caller:
    stream.send(ucx_hello(place))
    for _ in range(10):
        yield


def reset(stream: socket.socket, place: Place) -> Caller:
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    yield


WAYS: dict[str, Callable[[socket.socket, Place], Caller]] = {
    "silent": silent,
    "crowd": silent,
    "garbage": garbage,
    "half": half_a_hello,
    "hello": hello_without_secret,
    "ucx": as_ucx,
    "reset": reset,
}


class Connection:
    """One attempt after the other, of one way, at one port."""

    def __init__(self, way: str, place: Place) -> None:
        self.way, self.place = way, place
        self.attempts = self.reached = 0
        self.caller: Caller | None = None
        self.connect()

    def connect(self) -> None:
        self.attempts += 1
        self.since = time.monotonic()
        self.caller = None
        self.stream = socket.socket(family_of(self.place[0]), socket.SOCK_STREAM)
        self.stream.setblocking(False)
        with contextlib.suppress(OSError):
            self.stream.connect(self.place)

    def again(self) -> None:
        self.stream.close()
        self.connect()

    def step(self) -> None:
        try:
            if self.caller is None:
                self.await_connection()
            else:
                next(self.caller)
        except BlockingIOError:
            pass
        except (OSError, StopIteration):
            self.again()

    def await_connection(self) -> None:
        error = self.stream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, os.strerror(error))
        try:
            self.stream.getpeername()
        except OSError:  # not yet
            if time.monotonic() - self.since > CONNECT_SECONDS:
                self.again()
            return
        self.reached += 1
        self.caller = WAYS[self.way](self.stream, self.place)


def connect(ways: list[str], seconds: float, places: list[Place]) -> str:
    count = {way: CROWD // len(places) if way == "crowd" else 1 for way in ways}
    connections = [Connection(way, place) for way in ways for place in places for _ in range(count[way])]
    for connection in connections:
        connection.step()
    print("begun", flush=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for connection in connections:
            connection.step()
        time.sleep(0.01)
    reached, attempts = (sum(getattr(it, what) for it in connections) for what in ("reached", "attempts"))
    return f"reached {reached} of {attempts}"


# --- floods ---


def checksum(data: bytes) -> int:
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def segment(own: str, place: Place, flags: int, data: bytes) -> bytes:
    """Of TCP over IPv4, from any port."""
    ports = (random.randrange(1024, 65536), place[1])
    whole = struct.pack(">HHIIBBHHH", *ports, random.getrandbits(32), 0, 5 << 4, flags, 65535, 0, 0) + data
    pseudo = socket.inet_aton(own) + socket.inet_aton(place[0]) + struct.pack(">BBH", 0, 6, len(whole))
    return whole[:16] + struct.pack(">H", checksum(pseudo + whole)) + whole[18:]


def own_address(place: Place) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.connect(place)
        return datagrams.getsockname()[0]


SYN, DATA = 0x02, 0x18


def packets(kind: str, place: Place) -> list[bytes]:
    if kind == "udp":
        return [os.urandom(1400) for _ in range(8)]
    own, flags = own_address(place), SYN if kind == "syn" else DATA
    return [segment(own, place, flags, bytes(0 if kind == "syn" else 512)) for _ in range(64)]


RAW = (socket.SOCK_RAW, socket.IPPROTO_TCP)
FLOODS = {"udp": (socket.SOCK_DGRAM, 0), "syn": RAW, "data": RAW}


def flood(kinds: list[str], seconds: float, places: list[Place]) -> str:
    streams = [(socket.socket(socket.AF_INET, *FLOODS[kind]), kind, place) for kind in kinds for place in places]
    batches = [(stream, packets(kind, place), place) for stream, kind, place in streams]
    sent = 0
    end = time.monotonic() + seconds
    print("begun", flush=True)
    while time.monotonic() < end:
        for stream, batch, place in batches:
            for packet in batch:
                with contextlib.suppress(OSError):  # the answer to an earlier one, or a queue that is full
                    stream.sendto(packet, place)
                    sent += 1
    return f"sent {sent}"


def main() -> None:
    kinds, seconds = sys.argv[1].split(","), float(sys.argv[2])
    places = [(address, int(port)) for address, port in zip(sys.argv[3::2], sys.argv[4::2], strict=True)]
    act = flood if kinds[0] in FLOODS else connect
    print(act(kinds, seconds, places), flush=True)


if __name__ == "__main__":
    main()
