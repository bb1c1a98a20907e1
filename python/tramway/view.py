"""Views of a group, and other things that its members are shown, as Python has them: copies, good for ever."""
from __future__ import annotations

import enum
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

from . import _structs as s
from ._handle import take
from ._library import lib
from .cluster import Cluster
from .errors import Error

__all__ = ["CellState", "ViewCell", "View", "Item", "Answer", "Layout", "LayoutCell"]


class CellState(enum.IntEnum):
    UNBORN = 0  # it never had members_min members
    LIVES = 1
    VACANT = 2  # nobody who is left has its state


class ViewCell(NamedTuple):
    """A cell in a view. Hosts are named, in the order of the cluster file."""

    subgroup: str
    shard: int
    state: CellState
    members: tuple[str, ...]
    senders: tuple[str, ...]  # those of the members that may send
    stateful: tuple[str, ...]  # those that had its state when the view began
    members_last: tuple[str, ...]  # vacant: who was in it last
    born: int  # number of the view in which its state was new
    lacks: int  # members that it lacks to members_min


class View(NamedTuple):
    """Who is there. Everybody who is in a view sees the same one under its number."""

    number: int
    adequate: bool  # if not, a cell has too few members, and nobody sends
    members: tuple[str, ...]
    left: tuple[str, ...]  # of the view before: who left in order
    life: dict[str, int]  # of each member
    cells: tuple[ViewCell, ...]  # by number


class Item(NamedTuple):
    """A message as it is delivered."""

    data: bytes
    sender: str  # a host
    number: int  # place in the order of its view and cell; in a raw cell, in the sender's
    client: int | None  # place of the client for which the sender has sent it


class Answer(NamedTuple):
    """What a member says to what it was asked. Without an error there is a reply."""

    host: str
    data: bytes
    version: int  # its state had all up to here
    error: Error | None


def names_of(cluster: Cluster, members: int) -> tuple[str, ...]:
    return tuple(name for i, name in enumerate(cluster.hosts) if members >> i & 1)


def set_of(cluster: Cluster, names: Iterable[str]) -> int:
    members = 0
    for name in names:
        members |= 1 << cluster.host(name)
    return members


def cell_of(cluster: Cluster, c: Any) -> ViewCell:
    sets = (names_of(cluster, members) for members in (c.members, c.senders, c.stateful, c.members_last))
    return ViewCell(c.subgroup.decode(), c.shard, CellState(c.state), *sets, c.born, c.lacks)


def view_of(cluster: Cluster, pointer: Any) -> View | None:
    """A copy of what the library shows until its next call; None of NULL."""
    if not pointer:
        return None
    v = pointer.contents
    life = {name: v.life[i] for i, name in enumerate(cluster.hosts) if v.members >> i & 1}
    cells = tuple(cell_of(cluster, v.cell[i]) for i in range(v.cells))
    return View(v.number, v.adequate, names_of(cluster, v.members), names_of(cluster, v.left), life, cells)


_ITEM = struct.Struct(s.ITEM_FORMAT)


def items_of(cluster: Cluster, address: int, count: int) -> list[Item]:
    """A batch."""
    hosts = cluster.hosts
    return [Item(take(data, size), hosts[sender], number, client - 1 if client else None)
            for data, size, sender, number, client in _ITEM.iter_unpack(take(address, count * _ITEM.size))]


def answer_of(cluster: Cluster, pointer: Any) -> Answer:
    a = pointer.contents
    error = None if a.status == 0 else Error.of(a.status, lib.tram_code_text(a.status).decode())
    host = cluster.hosts[a.host] if a.host < len(cluster.hosts) else ""
    return Answer(host, take(a.data, a.bytes), a.version, error)


class LayoutCell:
    """A cell of the next view: members and senders are to be set, by names of hosts."""

    def __init__(self, subgroup: str, shard: int, state: CellState, stateful: tuple[str, ...]) -> None:
        self.subgroup = subgroup
        self.shard = shard
        self.state = state
        self.stateful = stateful  # who goes on and has its state; at least one of them stays
        self.members: Iterable[str] = ()
        self.senders: Iterable[str] = ()


class Layout:
    """Who is in the next view, and into which cells they go."""

    def __init__(self, members: tuple[str, ...], cells: list[LayoutCell]) -> None:
        self.members = members
        self.cells = cells


def layout_of(cluster: Cluster, before: Any, pointer: Any) -> Layout:
    """Subgroups are those of the view before; without one they are not known yet, and cells have their numbers alone."""
    now = pointer.contents
    known = before.contents.cell if before else None
    cells = [LayoutCell(known[i].subgroup.decode() if known else "", known[i].shard if known else 0, CellState(c.state),
                        names_of(cluster, c.stateful)) for i, c in enumerate(now.cell[:now.cells])]
    return Layout(names_of(cluster, now.members), cells)


def layout_set(cluster: Cluster, layout: Layout, pointer: Any) -> None:
    for i, cell in enumerate(layout.cells):
        pointer.contents.cell[i].members = set_of(cluster, cell.members)
        pointer.contents.cell[i].senders = set_of(cluster, cell.senders)
