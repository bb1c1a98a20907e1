"""State machines of replicas and of members, as the library calls them: what both kinds share.

A *life* is a machine in use: in production one for each host, in the simulator one for each life of each host.
"""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

from ._handle import Carried, as_bytes, take

_libc = ctypes.CDLL(None)
_libc.malloc.restype = ctypes.c_void_p
_libc.malloc.argtypes = [ctypes.c_size_t]

CANNOT = -10  # what saving and loading return for an exception


class Life:
    """A machine, and what is under way with it. Once it has raised an exception its state is anybody's guess: it is not called
    again."""

    def __init__(self, machine: Any, carried: Carried) -> None:
        self.machine = machine
        self.carried = carried
        self.failed: BaseException | None = None
        self.saves: dict[int, Saving] = {}
        self.next_save = 1


Find = Callable[[Any], Life]  # the life that a ctx of the library names


def call_machine(find: Find, function: Callable[..., Any], failed: Any, breaks: bool = True) -> Callable[..., Any]:
    """The function for the library: it gets the life in place of the ctx. breaks: an exception is the end of the machine."""
    def wrapped(ctx: Any, *arguments: Any) -> Any:
        life = find(ctx)
        if life.failed is not None:
            return failed
        try:
            return function(life, *arguments)
        except BaseException as e:
            if breaks:
                life.failed = e
            life.carried.waiting.append(e)
            return failed
    return wrapped


class Saving:
    """A state on its way out: pieces of any size in, pieces of the library's size out."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.pieces = pieces
        # The first piece now: a generator runs up to its first yield, which is where it freezes the state.
        self.rest = memoryview(as_bytes(next(pieces, b"")))

    def take(self, room: int) -> memoryview:
        while not self.rest:
            piece = next(self.pieces, None)
            if piece is None:
                break
            self.rest = memoryview(as_bytes(piece))
        out, self.rest = self.rest[:room], self.rest[room:]
        return out


def _copy(to: int, data: bytes | memoryview) -> None:
    ctypes.memmove(to, bytes(data), len(data))


def small(find: Find, name: Callable[[int], Any]) -> dict[str, Any]:
    """The calls of a machine whose state is one piece of bytes."""
    def save(life: Life, group: int, data: Any, count: Any) -> int:
        state = as_bytes(life.machine.save(name(group)))
        room = _libc.malloc(max(len(state), 1))  # the library frees it
        if not room:
            raise MemoryError
        _copy(room, state)
        data[0], count[0] = room, len(state)
        return 0

    def load(life: Life, group: int, data: int | None, count: int) -> int:
        life.machine.load(name(group), take(data, count))
        return 0

    return {"save": call_machine(find, save, CANNOT), "load": call_machine(find, load, CANNOT)}


def streamed(find: Find, name: Callable[[int], Any]) -> dict[str, Any]:
    """Those of one that saves and loads in pieces."""
    def save_open(life: Life, group: int, _count: Any) -> int:
        number = life.next_save
        life.next_save += 1
        life.saves[number] = Saving(iter(life.machine.save_pieces(name(group))))
        return number

    def save_next(life: Life, _group: int, save: int, out: int, room: int) -> int:
        piece = life.saves[save].take(room)
        _copy(out, piece)
        return len(piece)

    def save_close(life: Life, _group: int, save: int) -> None:
        close = getattr(life.saves.pop(save).pieces, "close", None)
        if close is not None:
            close()

    def load_open(life: Life, group: int, _count: int) -> int:
        life.machine.load_begin(name(group))
        return 0

    def load_next(life: Life, group: int, data: int | None, count: int) -> int:
        life.machine.load_piece(name(group), take(data, count))
        return 0

    def load_close(life: Life, group: int, whole: bool) -> int:
        life.machine.load_end(name(group), whole)
        return 0

    return {"save_open": call_machine(find, save_open, None), "save_next": call_machine(find, save_next, CANNOT),
            "save_close": call_machine(find, save_close, None), "load_open": call_machine(find, load_open, CANNOT),
            "load_next": call_machine(find, load_next, CANNOT), "load_close": call_machine(find, load_close, CANNOT)}


def state_calls(kind: type, find: Find, name: Callable[[int], Any]) -> dict[str, Any]:
    """Those that a class of machines has: `save` and `load`, or `save_pieces`, `load_begin`, `load_piece` and `load_end`."""
    pair, pieces = ("save", "load"), ("save_pieces", "load_begin", "load_piece", "load_end")
    has = [[hasattr(kind, method) for method in methods] for methods in (pair, pieces)]
    if any(map(any, has)) and [all(h) for h in has] not in ([True, False], [False, True]) or all(map(any, has)):
        raise TypeError(f"{kind.__name__} has some of {', '.join(pair + pieces)}: it needs the first two, the other four, or none")
    if all(has[0]):
        return small(find, name)
    return streamed(find, name) if all(has[1]) else {}


def fill(struct: Any, calls: dict[str, Any]) -> Any:
    """Callbacks into a struct of them."""
    kinds = dict(type(struct)._fields_)
    for field, function in calls.items():
        setattr(struct, field, kinds[field](function))
    return struct
