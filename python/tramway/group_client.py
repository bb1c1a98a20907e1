"""Clients of a group: programs that are no members."""
from __future__ import annotations

import ctypes
from typing import Any

from . import _structs as s
from ._handle import FOREVER_NS, SLICE_NS, Handle, as_bytes, as_name, as_ns, as_number, sliced, without_error
from ._library import lib
from .cluster import Cluster
from .errors import TimedOut
from .question import Question
from .view import Answer, answer_of

__all__ = ["GroupClient"]

Bytes = bytes | bytearray | memoryview

_cell = without_error(lib.tram_group_client_cell)


class GroupClient(Handle):
    """Sends to cells, and asks members. It holds up nobody. Messages to one cell are delivered in the order in which they were sent,
    each once."""

    _closer = "tram_group_client_close"

    def __init__(self, cluster: Cluster, retry_ms: int = 0) -> None:
        super().__init__(cluster)
        self._questions: dict[int, Question] = {}

        def done(_ctx: Any, ticket: int, answer: Any) -> None:
            question = self._questions.pop(ticket, None)
            if question is not None:
                question.answers.append(answer_of(cluster, answer))
                question._finish()

        options = s.tram_group_client_options()
        options.done = dict(s.tram_group_client_options._fields_)["done"](self._carried.wrap(done))
        options.retry_ms = as_number(retry_ms, 32, "retry_ms")
        self._kept.append(options)
        self._open(lib.tram_group_client_open, cluster._alive(), options)

    def cell(self, subgroup: str, shard: int = 0) -> int:
        """The number of a cell."""
        return self._do(_cell, as_name(subgroup), as_number(shard, 32, "a shard"))

    # ---- sending and asking ----

    def _ask(self, function: Any, *arguments: Any, on: Handle | None = None) -> Question:
        ticket = ctypes.c_uint64()
        (on or self)._do(function, *arguments, ticket)
        question = Question(ticket.value)
        self._questions[ticket.value] = question
        return question

    def send(self, cell: int, data: Bytes) -> Question:
        """Has the message sent to the cell. It leaves with the next poll; its answer, without a reply, says that it was delivered."""
        body = as_bytes(data)
        return self._ask(lib.tram_group_client_send, as_number(cell, 32, "a cell"), body, len(body))

    def call(self, cell: int, data: Bytes, reply_max: int | None = None) -> Question:
        """Likewise, and its answer is the reply of the member that has sent it."""
        body = as_bytes(data)
        room = self.ask_max if reply_max is None else as_number(reply_max, 32, "reply_max")
        return self._ask(lib.tram_group_client_call, as_number(cell, 32, "a cell"), body, len(body), room)

    def query(self, cell: int, data: Bytes, version: int = 0, reply_max: int | None = None) -> Question:
        """Asks a member of the cell, which answers once its state has all up to the version."""
        body = as_bytes(data)
        room = self.ask_max if reply_max is None else as_number(reply_max, 32, "reply_max")
        return self._ask(lib.tram_group_client_query, as_number(cell, 32, "a cell"), as_number(version, 64, "a version"), body,
                         len(body), room)

    # ---- waiting ----

    def poll(self) -> int:
        """Sends what is to be sent, and takes what has come. How many tickets are done."""
        return self._run(lib.tram_group_client_poll)

    def wait(self, timeout: float | None = None) -> int:
        """The same, and waits so many seconds until something is done."""
        return sliced(lambda ns: self._run(lib.tram_group_client_wait, ns), timeout, at_once=False)

    def answer(self, question: Question, timeout: float | None = None) -> Answer:
        """Waits for it. An answer that is an error is raised."""
        rest = as_ns(timeout)
        while not question.done:
            piece = min(rest, SLICE_NS)
            self._run(lib.tram_group_client_wait, piece)
            rest -= piece if rest < FOREVER_NS else 0
            if rest == 0 and not question.done:
                error = TimedOut("it is not answered in time; it is tried on, and may be waited for again")
                error.ticket = question.ticket
                raise error
        return question.answer

    def fd(self) -> int:
        """A descriptor that is readable when poll is to be called, until it returns 0; poll also after sending."""
        return self._run(lib.tram_group_client_fd)

    def wake(self) -> None:
        """From any thread: makes the descriptor readable, or ends wait."""
        self._wake(lib.tram_group_client_wake)

    # ---- looking ----

    def waits(self, cell: int) -> str | None:
        """None, or a sentence: something waits for the cell, and no member is there that takes it."""
        text: bytes | None = self._look(lib.tram_group_client_waits, as_number(cell, 32, "a cell"))
        return None if text is None else text.decode()

    def message_max(self, cell: int) -> int:
        return int(self._look(lib.tram_group_client_message_max, as_number(cell, 32, "a cell")))

    @property
    def ask_max(self) -> int:
        return int(self._look(lib.tram_group_client_ask_max))

    @property
    def outstanding(self) -> int:
        """How many tickets are not done."""
        return int(self._look(lib.tram_group_client_outstanding))
