"""Members of a group: processes that send to each other, in views."""
from __future__ import annotations

import ctypes
import enum
from collections.abc import Callable
from typing import Any

from . import _structs as s
from ._handle import Carried, Handle, as_bytes, as_name, as_number, take, without_error
from ._library import lib
from ._state import Find, Life, _copy, call_machine, fill, state_calls
from ._stepped import Stepped
from .cluster import Cluster
from .errors import Broken, Error
from .question import Question
from .view import Item, Layout, View, answer_of, items_of, layout_of, layout_set, view_of

__all__ = ["GroupMachine", "Group", "Sender", "GroupCounts", "Wait"]

GroupCounts = s.tram_group_counts
Bytes = bytes | bytearray | memoryview

_TOO_LONG = 2**32 - 1  # as a reply: what is told to the caller of one that failed
_BROKEN = Broken.code

_cell = without_error(lib.tram_group_cell)


class Wait(enum.IntEnum):
    FILE = 0  # as the cluster file says
    AUTO = 1  # spin, then sleep
    SPIN = 2
    SLEEP = 3


class GroupMachine:
    """What a member does with messages, questions and views. In a cell whose members are to stay equal it does the same with the
    same deliveries: no clock, no chance, no order of a set. All is called from within step, poll and close, and may send, ask, set
    columns and look.

    State for members that come, if cells have one: `save` and `load`, or `save_pieces`, `load_begin`, `load_piece` and `load_end`,
    as in tramway.Machine, with the number of a cell in place of the name of a group.

    What raises an exception ends the member, but for answered, query, progress, persisted and topics: step raises it.
    """

    def deliver(self, cell: int, view: int, items: list[Item]) -> None:
        """Messages of one cell, in order, all of the view of that number."""

    def call(self, cell: int, view: int, item: Item) -> bytes | None:
        """A message that was sent by Group.call, at its place in the order: as deliver, and it makes a reply."""
        self.deliver(cell, view, [item])
        return None

    def query(self, cell: int, asker: str | None, data: bytes) -> bytes | None:
        """A member, or a client (None), asks. Changes nothing. A tramway.Error that it raises is what the asker is told."""
        raise NotImplementedError

    def progress(self, cell: int, sender: str, size: int, of: int) -> None:
        """How far a large message is that takes more than a second to come or go."""

    def view(self, before: View | None, now: View | None) -> None:
        """A new view begins. now is None if this member was put out or has left: what it has of cells is void."""

    def returned(self, cell: int, data: bytes) -> None:
        """An own message will not be delivered, since this member does not send in the cell any more."""

    def born(self, cell: int) -> None:
        """The cell is new, and its state is to be as a new one is."""

    def persisted(self, cell: int, version: int) -> None:
        """Of a cell that is kept: all its versions below this one are on this member's disk."""


class Member(Life):
    """A machine, and what its group has asked."""

    def __init__(self, machine: GroupMachine, carried: Carried) -> None:
        super().__init__(machine, carried)
        self.questions: dict[int, Question] = {}


def _reply(made: bytes | None, room: int, to: int) -> int:
    """A longer one than there is room for is not written: its length says so."""
    data = b"" if made is None else as_bytes(made)
    if data and len(data) <= room:
        _copy(to, data)
    return len(data)


def _order(cluster: Cluster) -> dict[str, Any]:
    """What comes in the order of messages."""
    def deliver(m: Member, cell: int, view: int, items: int, count: int) -> None:
        m.machine.deliver(cell, view, items_of(cluster, items, count))

    def call(m: Member, cell: int, view: int, item: int, reply: int, room: int) -> int:
        return _reply(m.machine.call(cell, view, items_of(cluster, item, 1)[0]), room, reply)

    def view(m: Member, before: Any, now: Any) -> None:
        m.machine.view(view_of(cluster, before), view_of(cluster, now))

    def returned(m: Member, cell: int, data: int | None, count: int) -> None:
        m.machine.returned(cell, take(data, count))

    def born(m: Member, cell: int) -> None:
        m.machine.born(cell)

    return {"deliver": deliver, "call": call, "view": view, "returned": returned, "born": born}


def _aside(cluster: Cluster) -> dict[str, Any]:
    """And what does not, and changes no state: after an exception there the member goes on."""
    def query(m: Member, cell: int, asker: int, data: int | None, count: int, reply: int, room: int) -> int:
        who = None if asker == s.TRAM_ANY_HOST else cluster.hosts[asker]
        try:
            return _reply(m.machine.query(cell, who, take(data, count)), room, reply)
        except Error as e:
            return e.code or _BROKEN

    def progress(m: Member, cell: int, sender: int, size: int, of: int) -> None:
        m.machine.progress(cell, cluster.hosts[sender], size, of)

    def persisted(m: Member, cell: int, version: int) -> None:
        m.machine.persisted(cell, version)

    return {"query": query, "progress": progress, "persisted": persisted}


def _answered(cluster: Cluster) -> Callable[..., None]:
    def answered(m: Member, ticket: int, answer: Any) -> None:
        question = m.questions.get(ticket)
        if question is None:
            return
        if answer:
            question.answers.append(answer_of(cluster, answer))
        else:
            del m.questions[ticket]
            question._finish()
    return answered


def group_machine_of(cluster: Cluster, kind: type[GroupMachine], find: Find) -> s.tram_group_machine:
    """Only what the class has of its own is told to the library."""
    calls: dict[str, Any] = {"answered": call_machine(find, _answered(cluster), None, breaks=False)}
    failed = {"call": _TOO_LONG, "query": _BROKEN}
    for breaks, functions in ((True, _order(cluster)), (False, _aside(cluster))):
        for name, function in functions.items():
            if getattr(kind, name) is not getattr(GroupMachine, name):
                calls[name] = call_machine(find, function, failed.get(name), breaks)
    calls.update(state_calls(kind, find, lambda cell: cell))
    return fill(s.tram_group_machine(), calls)


LayoutFunction = Callable[[View | None, Layout], None]


def layout_call(cluster: Cluster, carried: Carried, function: LayoutFunction | None) -> Any:
    """An exception leaves the cells empty, and is raised by step."""
    def layout(_ctx: Any, before: Any, following: Any) -> None:
        assert function is not None
        view = layout_of(cluster, before, following)
        function(view_of(cluster, before), view)
        layout_set(cluster, view, following)
    return s.LAYOUT(0) if function is None else s.LAYOUT(carried.wrap(layout))


class GroupHandle(Handle):
    """What a member can do but for being stepped: all that the simulator's members can, too. Cells are numbers."""

    _member: Member

    def cell(self, subgroup: str, shard: int = 0) -> int:
        """The number of a cell: the same at all hosts and in all views."""
        return self._do(_cell, as_name(subgroup), as_number(shard, 32, "a shard"))

    # ---- sending ----

    def send(self, cell: int, data: Bytes) -> None:
        """Sends to the cell. Again: step, then try again; Refused: this host may not send there in this view."""
        body = as_bytes(data)
        self._do(lib.tram_group_send, as_number(cell, 32, "a cell"), body, len(body))

    def call(self, cell: int, data: Bytes, reply_max: int | None = None) -> Question:
        """Sends a message to which each member of the cell replies, at its place in the order. Its answers come while this is
        stepped."""
        body = as_bytes(data)
        room = self.ask_max if reply_max is None else as_number(reply_max, 32, "reply_max")
        return self._ask(lib.tram_group_call, as_number(cell, 32, "a cell"), body, len(body), room)

    def query(self, cell: int, data: Bytes, host: str | None = None, version: int = 0, reply_max: int | None = None) -> Question:
        """Asks one member of the cell, in no order with messages; None: any. It answers when its state has all up to the version."""
        body = as_bytes(data)
        room = self.ask_max if reply_max is None else as_number(reply_max, 32, "reply_max")
        who = s.TRAM_ANY_HOST if host is None else self.cluster.host(host)
        return self._ask(lib.tram_group_query, as_number(cell, 32, "a cell"), who, as_number(version, 64, "a version"), body,
                         len(body), room)

    def _ask(self, function: Any, *arguments: Any) -> Question:
        ticket = ctypes.c_uint64()
        self._do(function, *arguments, ticket)
        question = Question(ticket.value)
        self._member.questions[ticket.value] = question
        return question

    # ---- looking ----

    def view(self) -> View | None:
        """The present view; None: this host is in none."""
        return view_of(self.cluster, self._look(lib.tram_group_view))

    def has_state(self, cell: int) -> bool:
        """Does this member have the cell's state, and deliver?"""
        return bool(self._look(lib.tram_group_has_state, as_number(cell, 32, "a cell")))

    def version(self, cell: int) -> int:
        """How far this member is in the order of the cell."""
        return int(self._look(lib.tram_group_version, as_number(cell, 32, "a cell")))

    def time(self, cell: int) -> int:
        """Of a cell that is kept: up to which time, in ns since 1970, this member has all that there will ever be."""
        return int(self._look(lib.tram_group_time, as_number(cell, 32, "a cell")))

    def persisted(self, cell: int, host: str) -> int:
        """Of a cell that is kept: up to which version a member's disk has all."""
        return int(self._look(lib.tram_group_persisted, as_number(cell, 32, "a cell"), self.cluster.host(host)))

    def waits(self) -> str | None:
        """For what the next view or sending waits, as a sentence."""
        text: bytes | None = self._look(lib.tram_group_waits)
        return None if text is None else text.decode()

    def counts(self) -> GroupCounts:
        counts = s.tram_group_counts()
        self._look(lib.tram_group_counts, counts)
        return counts

    def message_max(self, cell: int) -> int:
        return int(self._look(lib.tram_group_message_max, as_number(cell, 32, "a cell")))

    @property
    def ask_max(self) -> int:
        """The longest question, and the longest reply."""
        return int(self._look(lib.tram_group_ask_max))

    @property
    def has_left(self) -> bool:
        return bool(self._look(lib.tram_group_has_left))

    # ---- columns ----

    def column_set(self, cell: int, column: int, value: int) -> None:
        """Writes this member's word of a column. Words only rise."""
        self._look(lib.tram_column_set, as_number(cell, 32, "a cell"), _column(column), as_number(value, 64, "a value"))

    def column_get(self, cell: int, column: int, host: str) -> int:
        """A member's word; 0 of who is not in the cell."""
        return int(self._look(lib.tram_column_get, as_number(cell, 32, "a cell"), _column(column), self.cluster.host(host)))

    def column_min(self, cell: int, column: int) -> int:
        """The least of all members of the cell."""
        return int(self._look(lib.tram_column_min, as_number(cell, 32, "a cell"), _column(column)))

    # ---- views ----

    def leave(self) -> None:
        """Leaves, and goes on: the machine's view comes with None, and has_left is true from then on."""
        self._look(lib.tram_group_leave)

    def relayout(self) -> None:
        """Asks for a new view, with the layout computed anew."""
        self._look(lib.tram_group_relayout)

    def reset_cell(self, cell: int) -> None:
        """A vacant cell begins anew in the next view, empty. Again: ask the host that leads the keepers."""
        self._do(lib.tram_group_reset_cell, as_number(cell, 32, "a cell"))


def _column(column: int) -> int:
    if not 0 <= column < s.TRAM_COLUMNS:
        raise ValueError(f"a cell has columns 0 to {s.TRAM_COLUMNS - 1}, and no {column}")
    return column


class Group(Stepped, GroupHandle):
    """A member. It is stepped or polled all the time: one that is not for suspect_ms of the cluster file is put out."""

    _closer = "tram_group_close"
    _step, _poll = lib.tram_group_step, lib.tram_group_poll
    _fd, _waker = lib.tram_group_fd, lib.tram_group_wake
    _machine_word = "machine"

    def __init__(self, cluster: Cluster, host: str, machine: GroupMachine | None = None, layout: LayoutFunction | None = None,
                 wait: Wait = Wait.FILE, leave_ms: int = 0, trace_dir: str | None = None) -> None:
        super().__init__(cluster)
        self.host = host
        self.machine = machine or GroupMachine()
        self._life = self._member = member = Member(self.machine, self._carried)
        options = s.tram_group_options()
        options.host = as_name(host)
        options.machine = group_machine_of(cluster, type(self.machine), lambda _ctx: member)
        options.layout = layout_call(cluster, self._carried, layout)
        options.wait = Wait(wait)
        options.leave_ms = as_number(leave_ms, 32, "leave_ms")
        options.trace_dir = None if trace_dir is None else as_name(trace_dir)
        self._kept.append(options)
        self._open(lib.tram_group_open, cluster._alive(), options)

    def _host_name(self) -> str:
        return self.host

    def sender(self, cell: int, ring_bytes: int = 0) -> Sender:
        """A handle through which one other thread sends to the cell."""
        return Sender(self, cell, ring_bytes)


class Sender(Handle):
    """Sends from another thread than the group's. Opened and closed in the group's."""

    def __init__(self, group: Group, cell: int, ring_bytes: int) -> None:
        super().__init__(group.cluster, group, own_thread=True)
        out = ctypes.c_void_p()
        group._do(lib.tram_sender_open, as_number(cell, 32, "a cell"), as_number(ring_bytes, 32, "ring_bytes"), out)
        self._group = group
        self._opened(out.value)

    def send(self, data: Bytes) -> None:
        """Again: the ring is full."""
        body = as_bytes(data)
        self._run(lib.tram_sender_send, body, len(body))

    @property
    def waiting(self) -> int:
        """Bytes that are not taken yet. 0: everything was sent."""
        return int(self._look(lib.tram_sender_waiting))

    def close(self) -> None:
        """In the group's thread, when the other one has sent for the last time."""
        if self._pointer is None:
            return
        with self._guard.lock:
            self._group._look(lambda _group: lib.tram_sender_close(self._pointer))
            self._closed()
