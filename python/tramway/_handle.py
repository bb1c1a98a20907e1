"""What all handles have in common: who may use them when, how errors and exceptions of callbacks come out, how they end.

A call of the library gives up the interpreter's lock while it runs. So that two threads in one handle are an exception and no
race, each handle has a lock of its own, which is taken without waiting.
"""
from __future__ import annotations

import atexit
import ctypes
import math
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from . import _structs as s
from ._library import lib, raise_code
from .errors import Closed, Misused

if TYPE_CHECKING:
    from .cluster import Cluster

SLICE_NS = 100_000_000  # the longest that one call of the library waits: then signals are looked at, ^C among them
FOREVER_NS = 2**64 - 1

H = TypeVar("H", bound="Handle")

# What is open. It stays until it is closed, at the latest when the process ends, so that no callback outlives its function.
_opened: dict[Handle, None] = {}


def as_bytes(data: bytes | bytearray | memoryview) -> bytes:
    if isinstance(data, bytes):
        return data
    if isinstance(data, (bytearray, memoryview)):
        return bytes(data)
    raise TypeError(f"bytes are needed, not {type(data).__name__}")


def as_name(name: str) -> bytes:
    if not isinstance(name, str):
        raise TypeError(f"a name is needed, not {type(name).__name__}")
    if "\0" in name:
        raise ValueError("a name with a zero byte in it")
    return os.fsencode(name)


def as_number(value: int, bits: int, what: str) -> int:
    """ctypes would cut off what does not fit."""
    if not isinstance(value, int):
        raise TypeError(f"{what} is a number, not {type(value).__name__}")
    if not 0 <= value < 1 << bits:
        raise ValueError(f"{what} is from 0 to 2^{bits} - 1, not {value}")
    return value


def as_ns(seconds: float | None) -> int:
    """None: for ever."""
    if seconds is None or seconds == math.inf:
        return FOREVER_NS
    if not seconds >= 0:
        raise ValueError(f"a time-out is in seconds, from 0, not {seconds}")
    return min(int(seconds * 1e9), FOREVER_NS)


def take(address: int | None, count: int) -> bytes:
    """A copy of what the library shows in a callback, which is good only during it."""
    return ctypes.string_at(address, count) if count else b""


def without_error(function: Callable[..., int]) -> Callable[..., int]:
    """A function that returns a code and has no error, in the shape of those that have one."""
    def call(handle: int, *arguments: Any) -> int:
        arguments[-1].text = b""
        return function(handle, *arguments[:-1])
    return call


class Carried:
    """Exceptions of callbacks, on their way to whoever called what called them."""

    def __init__(self) -> None:
        self.waiting: list[BaseException] = []

    def wrap(self, function: Callable[..., Any], failed: Any = None) -> Callable[..., Any]:
        """The function for the library: if it raises, it returns `failed`."""
        def wrapped(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except BaseException as e:
                self.waiting.append(e)
                return failed
        return wrapped

    def throw(self) -> None:
        """One as it is; several as a group."""
        if self.waiting:
            came, self.waiting = self.waiting, []
            raise came[0] if len(came) == 1 else BaseExceptionGroup("callbacks failed", came)


class Guard:
    """Who is in the library with a handle, and all that belong to the same thread."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.owner = 0  # the thread that is in the library

    def enter(self, who: str) -> None:
        if not self.lock.acquire(blocking=False):
            if self.owner == threading.get_ident():
                raise Misused(f"a callback may not step, poll, wait with or close its {who}")
            raise Misused(f"this {who} is used by another thread just now")
        self.owner = threading.get_ident()

    def leave(self) -> None:
        self.owner = 0
        self.lock.release()

    def inside(self) -> bool:
        """Is this a callback?"""
        return self.owner == threading.get_ident()


class Handle:
    """Something open in the library. A context manager: the end of `with` closes it.

    One thread uses it at a time. Functions that wait or work may not be called from within its callbacks; others may.
    """

    _closer = ""  # the function that closes it; empty: it goes with its parent

    def __init__(self, cluster: Cluster, parent: Handle | None = None, own_thread: bool = False) -> None:
        """own_thread: it is not used by the thread of its parent."""
        self.cluster = cluster
        self._pointer: int | None = None
        self._parent = parent
        shared = parent is not None and not own_thread
        self._guard = parent._guard if parent is not None and shared else Guard()
        self._carried = parent._carried if parent is not None and shared else Carried()
        self._error = s.tram_error()
        self._waking = threading.RLock()  # nobody wakes what is being closed, no handler of a signal either
        self._ending = False
        self._kept: list[Any] = []  # what the library has the addresses of
        self._children: dict[Handle, None] = {}

    def _opened(self, pointer: int | None) -> None:
        self._pointer = pointer
        _opened[self] = None
        if self._parent is not None:
            self._parent._children[self] = None

    def _closed(self) -> None:
        """It is gone in the library, and what was opened on it too."""
        self._pointer = None
        _opened.pop(self, None)
        if self._parent is not None:
            self._parent._children.pop(self, None)
        for child in list(self._children):
            child._closed()

    def __enter__(self: H) -> H:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        return self._pointer is None

    def _who(self) -> str:
        return type(self).__name__.lower()

    def _alive(self) -> int:
        if self._pointer is None:
            raise Closed(f"this {self._who()} is closed")
        return self._pointer

    def _open(self, function: Any, on: int, options: Any) -> None:
        """Opens it; callbacks may come already."""
        out = ctypes.c_void_p()
        self._guard.enter(self._who())
        try:
            rc: int = function(on, options, out, self._error)
            if rc == 0:
                self._opened(out.value)
        finally:
            self._guard.leave()
        try:
            self._throw()
        except BaseException:
            self.close()
            raise
        raise_code(rc, self._error.text)

    def _throw(self) -> None:
        """What callbacks have raised."""
        if self._carried.waiting:
            self._carried.throw()
        if self.cluster._carried.waiting:
            self.cluster._carried.throw()

    def _run(self, function: Any, *arguments: Any) -> int:
        """Calls what may call back; `arguments` stand between the handle and the error. Its result, or an exception."""
        self._guard.enter(self._who())
        try:
            rc: int = function(self._alive(), *arguments, self._error)
            text = self._error.text if rc < 0 else b""
        finally:
            self._guard.leave()
        self._throw()
        if rc < 0:
            raise_code(rc, text)
        return rc

    def _do(self, function: Any, *arguments: Any) -> int:
        """Calls what callbacks may call, too."""
        if not self._guard.inside():
            return self._run(function, *arguments)
        error = s.tram_error()  # the other one is in use
        rc: int = function(self._alive(), *arguments, error)
        if rc < 0:
            raise_code(rc, error.text)
        return rc

    def _look(self, function: Any, *arguments: Any) -> Any:
        """Calls what has no error."""
        if self._guard.inside():
            return function(self._alive(), *arguments)
        self._guard.enter(self._who())
        try:
            return function(self._alive(), *arguments)
        finally:
            self._guard.leave()

    def _wake(self, function: Any) -> None:
        """From any thread."""
        with self._waking:
            if self._ending:
                raise Closed(f"this {self._who()} is closed")
            function(self._alive())

    def close(self) -> None:
        """May be called again. What callbacks have raised meanwhile is raised when it is done."""
        if self._pointer is None:
            return
        self._guard.enter(self._who())
        # Children that are other threads' are in the library for a moment at most.
        others = {child._guard for child in self._children} - {self._guard}
        for guard in others:
            guard.lock.acquire()
        try:
            with self._waking:
                self._ending = True
            if self._closer:
                getattr(lib, self._closer)(self._pointer)
            self._closed()
        finally:
            for guard in others:
                guard.lock.release()
            self._guard.leave()
        self._throw()


def sliced(wait: Callable[[int], int], timeout: float | None, at_once: bool) -> int:
    """Waits in slices, so that signals are seen. `wait` gets nanoseconds, and what it returns ends it unless it is 0 after all of
    the slice. at_once: time is simulated, and passes at once."""
    whole = as_ns(timeout)
    if at_once:
        return wait(whole)
    begin = time.monotonic_ns()
    while True:
        now = time.monotonic_ns()
        piece = min(SLICE_NS, max(whole - (now - begin), 0))
        done = wait(piece)
        if done or piece < SLICE_NS or time.monotonic_ns() - now < SLICE_NS:
            return done


def _close_all() -> None:
    for handle in reversed(list(_opened)):
        try:
            handle.close()
        except Misused:
            pass  # a thread that outlives the interpreter is in it


def _forget_all() -> None:
    """In a child process: all of it is the parent's."""
    for handle in list(_opened):
        handle._pointer = None
    _opened.clear()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget_all)
