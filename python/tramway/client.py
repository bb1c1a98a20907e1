"""Clients: programs that cast messages to groups of replicas, and take their replies."""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

from . import _structs as s
from ._handle import FOREVER_NS, SLICE_NS, Handle, as_bytes, as_name, as_ns, as_number, sliced, take, without_error
from ._library import lib
from .cluster import Cluster, Groups
from .errors import Again, NotFound, TimedOut

__all__ = ["Client", "Reply", "Done"]

Reply = Callable[[int, str, bytes], None]  # ticket, group, body
Done = Callable[[int], None]  # ticket
Bytes = bytes | bytearray | memoryview

_poll = without_error(lib.tram_client_poll)
_wait = without_error(lib.tram_client_wait)


class Destinations:
    """A set of groups as the library takes it."""

    def __init__(self, cluster: Cluster, groups: Groups) -> None:
        numbers = cluster.groups_of(groups)
        self.names = [cluster.groups[number] for number in numbers]
        self.count = len(numbers)
        self.array = (ctypes.c_uint16 * self.count)(*numbers)


class Room:
    """For the replies of one call at a time: it grows to what the largest set of groups needs."""

    def __init__(self, reply_max: int) -> None:
        self.reply_max = reply_max
        self.groups = 0
        self.reserve(1)

    def reserve(self, groups: int) -> None:
        if groups > self.groups:
            self.buffer = ctypes.create_string_buffer(max(groups * self.reply_max, 1))
            self.address = ctypes.addressof(self.buffer)
            self.lengths = (ctypes.c_uint32 * groups)()
            self.groups = groups

    def replies(self, names: list[str]) -> dict[str, bytes]:
        found = {}
        at = self.address
        for name, count in zip(names, self.lengths):
            found[name] = ctypes.string_at(at, count)
            at += self.reply_max
        return found


class Client(Handle):
    """A client. on_reply gets each group's reply to each message, on_done the end of each: all its groups have delivered it. Both
    are called from within poll, wait, call and await_replies."""

    _closer = "tram_client_close"
    _SETS_MAX = 256  # of destinations that are remembered,
    _AWAITED_MAX = 4096  # and messages whose replies may be asked for; the library keeps 64 of them

    def __init__(self, cluster: Cluster, on_reply: Reply | None = None, on_done: Done | None = None,
                 trace_dir: str | None = None) -> None:
        super().__init__(cluster)
        self._prepare()
        self._open(lib.tram_client_open, cluster._alive(), self._options(on_reply, on_done, trace_dir))

    def _prepare(self) -> None:
        self._sets: dict[Any, Destinations] = {}
        self._room = Room(self.cluster.reply_max)
        self._awaited: dict[int, Destinations] = {}
        self._simulated = False

    def _options(self, on_reply: Reply | None, on_done: Done | None, trace_dir: str | None) -> s.tram_client_options:
        options = s.tram_client_options()
        options.trace_dir = None if trace_dir is None else as_name(trace_dir)
        fields = dict(s.tram_client_options._fields_)
        names = self.cluster.groups

        def reply(_ctx: int, ticket: int, group: int, body: int | None, count: int) -> None:
            assert on_reply is not None
            on_reply(ticket, names[group], take(body, count))

        def done(_ctx: int, ticket: int) -> None:
            assert on_done is not None
            on_done(ticket)

        if on_reply is not None:
            options.reply = fields["reply"](self._carried.wrap(reply))
        if on_done is not None:
            options.done = fields["done"](self._carried.wrap(done))
        self._kept.append(options)
        return options

    def _destinations(self, groups: Groups) -> Destinations:
        key = tuple(groups) if isinstance(groups, (list, set, frozenset)) else groups
        found = self._sets.get(key)
        if found is None:
            found = Destinations(self.cluster, groups)
            if len(self._sets) >= self._SETS_MAX:
                self._sets.clear()
            self._sets[key] = found
        return found

    def _keep(self, ticket: int, dst: Destinations) -> None:
        """tram_await writes replies of as many groups as the message had."""
        self._awaited[ticket] = dst
        if len(self._awaited) > self._AWAITED_MAX:
            del self._awaited[next(iter(self._awaited))]

    # ---- casting ----

    def cast(self, groups: Groups, body: Bytes) -> int:
        """Casts a message and returns its ticket at once. It leaves with the next poll, wait or flush. Again: poll first."""
        dst = self._destinations(groups)
        data = as_bytes(body)
        ticket = ctypes.c_uint64()
        self._do(lib.tram_cast, dst.array, dst.count, data, len(data), ticket)
        return ticket.value

    def cast_request(self, number: int, groups: Groups, body: Bytes) -> int:
        """Casts a message with a number of the caller's, above all before. A retry with the same number, groups and body is not
        another message, and returns the ticket of the first time."""
        dst = self._destinations(groups)
        data = as_bytes(body)
        request = s.tram_request(dst.array, dst.count, data, len(data), as_number(number, 64, "a request"))
        ticket = ctypes.c_uint64()
        self._do(lib.tram_cast_request, request, ticket)
        self._keep(ticket.value, dst)
        return ticket.value

    def flush(self) -> None:
        self._look(lib.tram_client_flush)

    # ---- waiting ----

    def poll(self) -> int:
        """Sends what was cast, takes replies. How many messages were done."""
        return self._run(_poll)

    def wait(self, timeout: float | None = None) -> int:
        """The same, and waits so many seconds for something to happen."""
        return sliced(lambda ns: self._run(_wait, ns), timeout, self._simulated)

    def call(self, groups: Groups, body: Bytes, timeout: float | None = None) -> dict[str, bytes]:
        """Casts a message, waits until it is delivered everywhere, and gives the reply of each group.

        TimedOut: not all have answered in so many seconds. It may be delivered later, or was already: do not call again, but
        await_replies of the exception's ticket. Again: nothing was cast, since too many messages were under way for all of the time.
        """
        dst = self._destinations(groups)
        data = as_bytes(body)
        room = self._room
        room.reserve(dst.count)
        for piece, last in self._pieces(timeout):
            try:
                self._run(lib.tram_call, dst.array, dst.count, data, len(data), room.address, room.reply_max, room.lengths, piece)
                return room.replies(dst.names)
            except Again:
                if last:
                    raise
            except TimedOut as e:
                e.ticket = self.last
                self._keep(e.ticket, dst)
                if last:
                    raise
                break
        return self.await_replies(self.last, None if timeout is None else max(timeout - SLICE_NS / 1e9, 0))

    def await_replies(self, ticket: int, timeout: float | None = None) -> dict[str, bytes]:
        """Waits for a message that was cast with a number, or by a call that timed out, and gives its replies. Those of a call once."""
        dst = self._awaited.get(ticket)
        if dst is None:
            raise NotFound(f"the replies to ticket {ticket} are not kept: those of requests with a number and of calls that "
                           "timed out are")
        self._room.reserve(dst.count)
        replies = s.tram_replies(self._room.address, self._room.reply_max, self._room.lengths)
        for piece, last in self._pieces(timeout):
            try:
                self._run(lib.tram_await, ticket, replies, piece)
                break
            except TimedOut as e:
                e.ticket = ticket
                if last:
                    raise
        return self._room.replies(dst.names)

    def _pieces(self, timeout: float | None) -> Iterator[tuple[int, bool]]:
        """A time-out in pieces, so that signals are seen between them, and which is the last. Simulated time is one piece."""
        rest = as_ns(timeout)
        while not self._simulated and (rest > SLICE_NS):
            yield SLICE_NS, False
            rest -= SLICE_NS if rest < FOREVER_NS else 0
        yield rest, True

    # ---- event loops ----

    def fd(self) -> int:
        """A descriptor that is readable when poll is to be called, until it returns 0; call it after casting, too. It is the
        client's. See tramway.aio for asyncio."""
        return self._run(lib.tram_client_fd)

    def wake(self) -> None:
        """From any thread: makes the descriptor readable, or ends wait."""
        self._wake(lib.tram_client_wake)

    # ---- looking ----

    def is_done(self, ticket: int) -> bool:
        """Has every destination delivered it, as far as is known by now?"""
        return bool(self._look(lib.tram_client_done, as_number(ticket, 64, "a ticket")))

    @property
    def last(self) -> int:
        """The ticket of the last message."""
        return int(self._look(lib.tram_client_last))

    @property
    def outstanding(self) -> int:
        """Messages under way."""
        return int(self._look(lib.tram_client_outstanding))

    @property
    def window(self) -> int:
        """How many may be at most."""
        return int(self._look(lib.tram_client_window))

    @property
    def place(self) -> int:
        return int(self._look(lib.tram_client_place))

    @property
    def life(self) -> int:
        return int(self._look(lib.tram_client_life))
