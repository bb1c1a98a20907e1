"""Handles in an asyncio loop: their descriptors tell when to poll them, so nothing waits and no thread is needed.

    async with aio.Client(cluster) as client:
        replies = await client.call(["red", "green"], b"12")

    async with aio.attach(tramway.Host(cluster, "h1", machine)) as host:      hosts and members are polled while the loop runs
        await host.failed()

A handle that is attached is stepped by nobody else, and used in the loop's thread. What callbacks raise comes out of `failed`, and of
whatever waits for an answer.
"""
from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Generic, Protocol, TypeVar

from . import client as _client
from . import group_client as _group_client
from . import topic as _topic
from .cluster import Cluster, Groups
from .errors import Again, Closed, Misused, TimedOut
from .question import Question
from .view import Answer, Item

__all__ = ["Attached", "attach", "Client", "GroupClient", "Subscription", "answers"]

Bytes = bytes | bytearray | memoryview

_POLLS = 16  # in a row, before other tasks have their turn


class Pollable(Protocol):
    """A Host, Client, Group or GroupClient."""

    def fd(self) -> int: ...
    def poll(self) -> int: ...
    def close(self) -> None: ...


P = TypeVar("P", bound=Pollable)
T = TypeVar("T")


class Attached(Generic[P]):
    """A handle that is polled by the running loop. The end of `async with` closes it."""

    def __init__(self, handle: P) -> None:
        self.handle = handle
        self._loop = asyncio.get_running_loop()
        self._fd = handle.fd()
        self._turn: asyncio.Handle | None = None
        self._paused = False
        self._failure: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(self._fd, self._poll)
        self.kick()

    async def __aenter__(self) -> Attached[P]:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave()
        self.close()

    async def leave(self, timeout: float = 2) -> None:
        """A member leaves in order, for which the others, which may be in this loop, have to be polled. Of other handles nothing."""
        handle: Any = self.handle
        if not hasattr(handle, "has_left") or self._failure.done():
            return
        handle.leave()
        self.kick()
        end = self._loop.time() + timeout
        while not (self._failure.done() or handle.has_left) and self._loop.time() < end:
            await asyncio.sleep(0.002)

    def kick(self) -> None:
        """Polls it soon: after sending, which leaves with the next poll."""
        if self._turn is None and not self._failure.done() and not self._paused:
            self._turn = self._loop.call_soon(self._poll)

    def _poll(self) -> None:
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        if self._failure.done():
            return
        try:
            for _ in range(_POLLS):
                if self.handle.poll() == 0:
                    return
        except BaseException as e:
            self._fail(e)
            if not isinstance(e, Exception):
                raise
        else:
            self.kick()  # the descriptor tells again only when there was nothing to do

    def _fail(self, e: BaseException) -> None:
        self._detach()
        self._failure.set_exception(e)
        self._failure.exception()  # it need not be asked for

    def _detach(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            self._fd = -1

    def pause(self) -> None:
        """It is not polled, until resume. A member that is not for suspect_ms is put out; a client holds up nobody."""
        if not self._paused and self._fd >= 0:
            self._paused = True
            self._loop.remove_reader(self._fd)

    def resume(self) -> None:
        if self._paused and self._fd >= 0:
            self._paused = False
            self._loop.add_reader(self._fd, self._poll)
            self.kick()

    async def failed(self) -> None:
        """Waits until it can go on no more, and raises why; returns when it is closed."""
        await asyncio.shield(self._failure)

    async def during(self, answer: asyncio.Future[T], timeout: float | None) -> T:
        """Waits for it, as long as the handle goes on."""
        done, _ = await asyncio.wait({answer, self._failure}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        if not done:
            raise TimedOut("it is not answered in time")
        self._failure.result()
        raise Closed("it was closed meanwhile")

    def close(self) -> None:
        self._detach()
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        if not self._failure.done():
            self._failure.set_result(None)
        self.handle.close()


def attach(handle: P) -> Attached[P]:
    """Has the running loop poll it."""
    return Attached(handle)


async def answers(attached: Attached[Any], question: Question, timeout: float | None = None) -> list[Answer]:
    """Waits for what a member or a client of a group has asked."""
    future: asyncio.Future[Question] = asyncio.get_running_loop().create_future()
    question.then(lambda q: future.done() or future.set_result(q))
    attached.kick()
    return (await attached.during(future, timeout)).answers


class _Calls:
    """The replies of messages under way."""

    def __init__(self) -> None:
        self.waiting: dict[int, tuple[asyncio.Future[dict[str, bytes]], dict[str, bytes]]] = {}

    def reply(self, ticket: int, group: str, body: bytes) -> None:
        if ticket in self.waiting:
            self.waiting[ticket][1][group] = body

    def done(self, ticket: int) -> None:
        future, replies = self.waiting.pop(ticket, (None, {}))
        if future is not None and not future.done():
            future.set_result(replies)


class Client(Attached[_client.Client]):
    """A client of groups of replicas, in the running loop. Any number of tasks may call at once."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._calls = _Calls()
        self._room: deque[asyncio.Future[None]] = deque()

    async def open(self) -> Client:
        """As the beginning of `async with` does. Hosts are waited for in another thread: they may be in this loop."""
        super().__init__(await asyncio.to_thread(_client.Client, self._cluster, self._calls.reply, self._done))
        return self

    async def __aenter__(self) -> Client:
        return await self.open()

    def _done(self, ticket: int) -> None:
        self._calls.done(ticket)
        while self._room:  # one message less is under way: one task more may cast
            waits = self._room.popleft()
            if not waits.done():
                waits.set_result(None)
                break

    async def call(self, groups: Groups, body: Bytes, timeout: float | None = None) -> dict[str, bytes]:
        """Casts a message, waits until it is delivered everywhere, and gives the reply of each group, as tramway.Client.call does.
        TimedOut: it may be delivered later, or was already. Where too many messages are under way it waits for its turn first."""
        answer: asyncio.Future[dict[str, bytes]] = self._loop.create_future()
        deadline = None if timeout is None else self._loop.time() + timeout
        ticket = await self._cast(groups, body, deadline)
        self._calls.waiting[ticket] = (answer, {})
        self.kick()
        try:
            return await self.during(answer, None if deadline is None else max(deadline - self._loop.time(), 0))
        except TimedOut as e:
            e.ticket = ticket
            raise
        finally:
            self._calls.waiting.pop(ticket, None)

    async def _cast(self, groups: Groups, body: Bytes, deadline: float | None) -> int:
        while True:
            try:
                return self.handle.cast(groups, body)
            except Again:
                if deadline is not None and self._loop.time() >= deadline:
                    raise
            turn: asyncio.Future[None] = self._loop.create_future()
            self._room.append(turn)
            self.kick()
            try:
                await self.during(turn, None if deadline is None else max(deadline - self._loop.time(), 0))
            except TimedOut:
                pass  # one more try


class GroupClient(Attached[_group_client.GroupClient]):
    """A client of a group with views, in the running loop."""

    def __init__(self, cluster: Cluster, retry_ms: int = 0) -> None:
        self._cluster = cluster
        self._retry_ms = retry_ms

    async def open(self) -> GroupClient:
        """As the beginning of `async with` does. Members are waited for in another thread: they may be in this loop."""
        super().__init__(await asyncio.to_thread(_group_client.GroupClient, self._cluster, self._retry_ms))
        return self

    async def __aenter__(self) -> GroupClient:
        return await self.open()

    def cell(self, subgroup: str, shard: int = 0) -> int:
        return self.handle.cell(subgroup, shard)

    async def send(self, cell: int, data: Bytes, timeout: float | None = None) -> None:
        """Returns when it is delivered."""
        await self._answer(lambda: self.handle.send(cell, data), timeout)

    async def call(self, cell: int, data: Bytes, timeout: float | None = None) -> Answer:
        return await self._answer(lambda: self.handle.call(cell, data), timeout)

    async def query(self, cell: int, data: Bytes, version: int = 0, timeout: float | None = None) -> Answer:
        return await self._answer(lambda: self.handle.query(cell, data, version), timeout)

    async def _answer(self, ask: Callable[[], Question], timeout: float | None) -> Answer:
        question = ask()
        await answers(self, question, timeout)
        return question.answer

    def subscribe(self, name: str, **options: Any) -> Subscription:
        """A topic's samples; options are those of tramway.ClientTopic."""
        return Subscription(self, name, **options)


class Subscription:
    """Samples of a topic, for `async for`, in batches. A subscriber that is slower than its topic stops to take more from the
    library, which then tells it what it lost: `lost` counts that, and is None once it cannot be known any more."""

    BATCHES_MAX = 64  # that wait

    def __init__(self, client: GroupClient, name: str, **options: Any) -> None:
        self._client = client
        self._batches: deque[list[Item]] = deque()
        self._more = asyncio.Event()
        self.lost: int | None = 0
        if "on_samples" in options or "on_lost" in options:
            raise Misused("a subscription has callbacks of its own")
        self.topic = _topic.ClientTopic(client.handle, name, on_samples=self._take, on_lost=self._lose, **options)
        client.kick()

    def _take(self, _view: int, items: list[Item]) -> None:
        self._batches.append(items)
        self._more.set()
        if len(self._batches) >= self.BATCHES_MAX:
            self._client.pause()

    def _lose(self, count: int | None) -> None:
        self.lost = None if count is None or self.lost is None else self.lost + count

    async def __aiter__(self) -> AsyncIterator[list[Item]]:
        while True:
            while self._batches:
                batch = self._batches.popleft()
                if not self._batches:
                    self._client.resume()
                yield batch
            self._more.clear()
            if self.topic.closed:
                return
            more = asyncio.ensure_future(self._more.wait())
            try:
                await self._client.during(more, None)
            except Closed:
                return
            finally:
                more.cancel()

    def close(self) -> None:
        self.topic.close()
        self._more.set()
