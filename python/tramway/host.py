"""Hosts: they carry replicas of groups, whose state machine is written in Python."""
from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any, NamedTuple

from . import _structs as s
from ._handle import as_bytes, as_name, as_number, take
from ._library import lib
from ._state import Find, Life, call_machine, fill, state_calls, _copy
from ._stepped import Stepped
from .cluster import Cluster
from .errors import Broken, NotFound

__all__ = ["Delivery", "Machine", "Host", "ReplicaStats", "DiskStats", "Role"]

ReplicaStats = s.tram_replica_stats
DiskStats = s.tram_disk_stats

_BREAKS = 2**32 - 1  # a reply of a length that ends the host


class Role(enum.IntEnum):
    JOINING = 0
    FOLLOWER = 1
    CANDIDATE = 2
    SYNC = 3
    LEADER = 4


class Delivery(NamedTuple):
    """A message as a replica delivers it."""

    group: str  # whose replica delivers
    body: bytes
    number: int  # messages that this group delivered before this one
    client: int  # who cast it: place of the client,
    life: int  # which process it was there,
    seq: int  # and its number for the message, from 0
    groups: tuple[str, ...]  # all that it is for


class Machine:
    """The state machine of a host's replicas. It does the same with the same deliveries everywhere: no clock, no chance, no order
    of a set or of hash values. All calls come from within step and poll, and for a durable cluster while the host is opened.

    A replica that was away gets the state of another one, for which there are two ways. For small states:

        def save(self, group: str) -> bytes
        def load(self, group: str, state: bytes) -> None

    For others, since beyond some milliseconds a group stands still while its state is saved:

        def save_pieces(self, group: str) -> Iterable[bytes]    freezes the state before the first piece: deliveries go on meanwhile
        def load_begin(self, group: str) -> None
        def load_piece(self, group: str, piece: bytes) -> None
        def load_end(self, group: str, whole: bool) -> None     not whole: the transfer broke off, another one comes

    An exception of any of these ends the host: step raises it, and the message is not answered.
    """

    def deliver(self, d: Delivery) -> bytes | None:
        """Delivers a message, and returns the reply: at most reply_max bytes of the cluster file."""
        raise NotImplementedError(f"{type(self).__name__} has no deliver")


def machine_of(cluster: Cluster, kind: type[Machine], find: Find) -> s.tram_machine:
    names = cluster.groups

    def deliver(life: Life, delivery: Any, reply: int, reply_max: int) -> int:
        d = delivery.contents
        groups = tuple(names[g] for g in d.dst[:d.dst_count])
        made = life.machine.deliver(Delivery(names[d.group], take(d.body, d.bytes), d.number, d.client, d.life, d.seq, groups))
        if made is None:
            return 0
        data = as_bytes(made)
        if len(data) > reply_max:
            raise Broken(f"a reply of {len(data)} bytes; reply_max of the cluster file allows {reply_max}")
        if data:
            _copy(reply, data)
        return len(data)

    calls = {"deliver": call_machine(find, deliver, _BREAKS), **state_calls(kind, find, names.__getitem__)}
    return fill(s.tram_machine(), calls)


class Host(Stepped):
    """A host of the cluster file, with all its replicas."""

    _closer = "tram_host_close"
    _step, _poll = lib.tram_host_step, lib.tram_host_poll
    _fd, _waker = lib.tram_host_fd, lib.tram_host_wake
    _machine_word = "state machine"

    def __init__(self, cluster: Cluster, name: str, machine: Machine, trace_dir: str | None = None) -> None:
        super().__init__(cluster)
        life = Life(machine, self._carried)
        options = s.tram_host_options()
        options.name = as_name(name)
        options.machine = machine_of(cluster, type(machine), lambda _ctx: life)
        options.trace_dir = None if trace_dir is None else as_name(trace_dir)
        self.name = name
        self.machine = machine
        self._life = life
        self._kept.append(options)
        self._open(lib.tram_host_open, cluster._alive(), options)

    def _host_name(self) -> str:
        return self.name

    def replica(self, n: int) -> ReplicaStats:
        """What the n-th replica that this host carries is doing."""
        stats = s.tram_replica_stats()
        if self._look(lib.tram_host_replica, as_number(n, 32, "a replica"), stats) < 0:
            raise NotFound(f"{self.name} carries no replica {n}")
        return stats

    def replicas(self) -> Iterable[ReplicaStats]:
        """All of them."""
        try:
            for n in range(len(self.cluster.groups)):
                yield self.replica(n)
        except NotFound:
            pass

    def disk(self) -> DiskStats | None:
        """What its disk is doing; None: the cluster is not durable."""
        stats = s.tram_disk_stats()
        return None if self._look(lib.tram_host_disk, stats) < 0 else stats

    def disk_state(self) -> str:
        """A word for that: "ok", "slow", "restoring", "damaged", "no room", "full"; empty if there is none."""
        stats = self.disk()
        return "" if stats is None else lib.tram_disk_state_text(stats.state).decode()
