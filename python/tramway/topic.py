"""Topics: samples that are published under a name, of members of a group and of programs that are none."""
from __future__ import annotations

import ctypes
import enum
from collections.abc import Callable
from typing import Any

from . import _structs as s
from ._handle import Handle, as_bytes, as_name, as_number
from ._library import lib
from .group import Group
from .group_client import GroupClient
from .question import Question
from .view import Item, items_of

__all__ = ["Topic", "ClientTopic", "Qos", "From", "Samples"]

Samples = Callable[[int, list[Item]], None]  # number of the view, a batch in order
Bytes = bytes | bytearray | memoryview

_PUBLISH, _SUBSCRIBE = 1, 2


class Qos(enum.IntEnum):
    FILE = 0  # as the cluster file says
    UNORDERED = 1
    ATOMIC = 2
    VOLATILE = 3  # atomic, with history
    LOGGED = 4


class From(enum.IntEnum):
    NOW = 0
    START = 1  # the oldest sample that is kept
    VERSION = 2  # none below the version `at`
    TIME = 3  # of a logged topic, by a client: none before `at`, in ns since 1970


class AnyTopic(Handle):
    """What both kinds have in common. It belongs to the thread of what it was opened on."""

    def _fill(self, options: Any, publish: bool, on_samples: Samples | None, qos: Qos, since: From, at: int) -> Any:
        cluster = self.cluster

        def samples(_ctx: Any, view: int, items: int, count: int) -> None:
            assert on_samples is not None
            on_samples(view, items_of(cluster, items, count))

        options.role = _PUBLISH * publish + _SUBSCRIBE * (on_samples is not None)
        options.qos = Qos(qos)
        setattr(options, "from", From(since))
        options.at = as_number(at, 64, "at")
        if on_samples is not None:
            options.on_samples = s.SAMPLES(self._carried.wrap(samples))
        self._kept.append(options)
        return options

    def _open_on(self, parent: Handle, function: Any, name: str, options: Any) -> None:
        out = ctypes.c_void_p()
        parent._do(function, as_name(name), options, out)
        self._opened(out.value)

    def close(self) -> None:
        """No more samples come, also not of what is being delivered. Callbacks may do it, too."""
        if self._pointer is not None:
            self._look(getattr(lib, self._closer))
            self._closed()


class Topic(AnyTopic):
    """A topic that a member publishes, or subscribes to (with on_samples), or both. What on_samples raises, step raises."""

    _closer = "tram_topic_close"

    def __init__(self, group: Group, name: str, publish: bool = False, on_samples: Samples | None = None, qos: Qos = Qos.FILE,
                 since: From = From.NOW, at: int = 0) -> None:
        super().__init__(group.cluster, group)
        self._open_on(group, lib.tram_topic_open, name,
                      self._fill(s.tram_topic_options(), publish, on_samples, qos, since, at))

    def publish(self, data: Bytes) -> None:
        """As Group.send."""
        body = as_bytes(data)
        self._do(lib.tram_publish, body, len(body))

    @property
    def lost(self) -> int:
        """Samples of a topic with history that this subscriber has missed."""
        return int(self._look(lib.tram_topic_lost))


class ClientTopic(AnyTopic):
    """A topic that a program has open which is no member. What it does not take in time is lost to it, the oldest first; on_lost is
    told how many, None if that is not known."""

    _closer = "tram_client_topic_close"

    def __init__(self, client: GroupClient, name: str, publish: bool = False, on_samples: Samples | None = None,
                 on_lost: Callable[[int | None], None] | None = None, qos: Qos = Qos.FILE, since: From = From.NOW,
                 at: int = 0) -> None:
        super().__init__(client.cluster, client)
        self._client = client
        options = self._fill(s.tram_client_topic_options(), publish, on_samples, qos, since, at)

        def lost(_ctx: Any, count: int) -> None:
            assert on_lost is not None
            on_lost(None if count == s.TRAM_LOST_SOME else count)

        if on_lost is not None:
            options.on_lost = dict(s.tram_client_topic_options._fields_)["on_lost"](self._carried.wrap(lost))
        self._open_on(client, lib.tram_client_topic_open, name, options)

    def publish(self, data: Bytes) -> Question:
        """As GroupClient.send."""
        body = as_bytes(data)
        return self._client._ask(lib.tram_client_publish, body, len(body), on=self)

    @property
    def fed(self) -> bool:
        """Does a member feed it?"""
        return bool(self._look(lib.tram_client_topic_fed))
