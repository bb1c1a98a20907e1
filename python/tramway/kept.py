"""What a host has on its disk of a cell that is kept, read by version or by time."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from . import _structs as s
from ._handle import Carried, as_name, as_number, take
from ._library import lib, raise_code
from .cluster import Cluster

__all__ = ["Version", "versions"]

_AT_ONCE = 1000  # so many are read before the first of them is handed on


class Version(NamedTuple):
    """A message as it stands on a disk."""

    version: int  # the view's number times 2^40, plus the message's number in it
    time_ns: int  # since 1970
    sender: str  # host
    data: bytes


# Reads from a version and time on: the callback, its ctx, the error behind them.
Read = Callable[[int, int, Any, Any], int]


def pages(cluster: Cluster, read: Read, version: int, time_ns: int) -> Iterator[Version]:
    page: list[Version] = []

    def one(_ctx: Any, pointer: Any) -> int:
        v = pointer.contents
        page.append(Version(v.version, v.time_ns, cluster.hosts[v.sender], take(v.data, v.bytes)))
        return 1 if len(page) == _AT_ONCE else 0

    while True:
        carried, error = Carried(), s.tram_error()
        rc = read(version, time_ns, s.VERSION(carried.wrap(one, 1)), error)
        carried.throw()
        raise_code(rc, error.text)
        yield from page
        if len(page) < _AT_ONCE:
            return
        version = page[-1].version + 1
        page.clear()


def versions(cluster: Cluster, host: str, cell: str, version: int = 0, time_ns: int = 0) -> Iterator[Version]:
    """Messages of a cell ("s1", or "map/2" for a shard) on the disk of a host of this machine, in order, from the first whose version
    and time are not below these. The host may run."""
    def read(since: int, time: int, function: Any, error: Any) -> int:
        rc: int = lib.tram_versions_read(cluster._alive(), as_name(host), as_name(cell), since, time, function, None, error)
        return rc
    return pages(cluster, read, as_number(version, 64, "a version"), as_number(time_ns, 64, "a time"))
