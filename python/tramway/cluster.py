"""Cluster files."""
from __future__ import annotations

import ctypes
import enum
import logging
from collections.abc import Callable, Sequence
from typing import Union

from . import _structs as s
from ._handle import Carried, as_name
from ._library import lib, raise_code
from .errors import Closed, NotFound

__all__ = ["Cluster", "LogLevel", "Groups"]

# One group or several, by name or number.
Groups = Union[str, int, Sequence[Union[str, int]]]


class LogLevel(enum.IntEnum):
    INFO = 0  # what happens
    WARNING = 1  # something is wrong, and work goes on
    ERROR = 2  # something was given up


_LOGGING = {LogLevel.INFO: logging.INFO, LogLevel.WARNING: logging.WARNING, LogLevel.ERROR: logging.ERROR}


class Cluster:
    """A cluster file, read and checked. What is opened on it keeps it."""

    def __init__(self, pointer: int) -> None:
        self._pointer: int | None = pointer
        self._carried = Carried()
        self._logs: list[object] = []  # hosts and clients keep the sink that they were opened with
        self.groups = tuple(lib.tram_cluster_group_name(pointer, g).decode() for g in range(lib.tram_cluster_groups(pointer)))
        self.hosts = tuple(lib.tram_cluster_host_name(pointer, h).decode() for h in range(lib.tram_cluster_hosts(pointer)))
        self.reply_max: int = lib.tram_cluster_reply_max(pointer)

    @classmethod
    def load(cls, path: str) -> Cluster:
        """Reads a file. Mistakes are answered with file, line, what is wrong and what would be right."""
        out, error = ctypes.c_void_p(), s.tram_error()
        raise_code(lib.tram_cluster_load(as_name(path), out, error), error.text)
        assert out.value is not None
        return cls(out.value)

    @classmethod
    def parse(cls, text: str, name: str = "cluster") -> Cluster:
        """The same from text."""
        out, error = ctypes.c_void_p(), s.tram_error()
        raise_code(lib.tram_cluster_parse(as_name(text), as_name(name), out, error), error.text)
        assert out.value is not None
        return cls(out.value)

    def __del__(self) -> None:
        # Whatever is open on it has it, so nothing is.
        if getattr(self, "_pointer", None) is not None:
            lib.tram_cluster_free(self._pointer)
            self._pointer = None

    def rename(self, name: str) -> None:
        """Changes its name, before anything is opened on it: so that two runs of one file do not meet."""
        error = s.tram_error()
        raise_code(lib.tram_cluster_rename(self._pointer, as_name(name), error), error.text)

    def log(self, line: Callable[[LogLevel, str], None], least: LogLevel = LogLevel.INFO) -> None:
        """Where the log lines of all that is opened from now on go. They come from any thread."""
        def sink(_ctx: int, level: int, text: bytes) -> None:
            line(LogLevel(level), text.decode(errors="replace"))
        function = s.callback(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)(self._carried.wrap(sink))
        self._logs.append(function)
        lib.tram_cluster_log(self._pointer, s.tram_log(function, None, least))

    def log_to(self, logger: logging.Logger) -> None:
        """The same, to a logger of Python's."""
        self.log(lambda level, text: logger.log(_LOGGING[level], "%s", text))

    def group(self, group: str | int) -> int:
        """The number of a group that is named or numbered."""
        return _index(self.groups, group, "group")

    def host(self, host: str | int) -> int:
        return _index(self.hosts, host, "host")

    def host_name(self, number: int) -> str:
        return self.hosts[number]

    def groups_of(self, groups: Groups) -> tuple[int, ...]:
        """Numbers of groups, ascending, each once."""
        if isinstance(groups, (str, int)):
            return (self.group(groups),)
        return tuple(sorted({self.group(group) for group in groups}))

    def format(self, host: str) -> None:
        """Makes the directory in which a host keeps what it keeps, once, when the host is set up (tram_host_format)."""
        error = s.tram_error()
        raise_code(lib.tram_host_format(self._pointer, as_name(host), error), error.text)

    def _alive(self) -> int:
        if self._pointer is None:
            raise Closed("this cluster is closed")
        return self._pointer


def _index(names: tuple[str, ...], which: str | int, what: str) -> int:
    if isinstance(which, str):
        if which not in names:
            raise NotFound(f"there is no {what} '{which}' in the cluster file")
        return names.index(which)
    if not isinstance(which, int):
        raise TypeError(f"a {what} is a name or a number, not {type(which).__name__}")
    if not 0 <= which < len(names):
        raise NotFound(f"there is no {what} number {which}; the cluster file has {len(names)}")
    return which
