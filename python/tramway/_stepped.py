"""What a host and a member of a group have alike: both are stepped, in a loop of this package or of the caller's, with a machine in Python."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._handle import Handle
from ._state import Life
from .errors import Broken, Closed


class Stepped(Handle):
    """A class of it names the functions of the library that it stands on."""

    _step: Any
    _poll: Any
    _fd: Any
    _waker: Any
    _machine_word: str  # what errors call the machine
    _life: Life
    _stopping = False

    def _host_name(self) -> str:
        raise NotImplementedError

    def _work(self, function: Any) -> int:
        self._alive()
        if self._life.failed is not None and not self._carried.waiting:
            raise Broken(f"{self._host_name()}: its {self._machine_word} has failed; close it") from self._life.failed
        return self._run(function)

    def step(self) -> int:
        """One round of work, and whatever waiting is due after it, at most some milliseconds."""
        return self._work(self._step)

    def poll(self) -> int:
        """One round without waiting. Returns work done."""
        return self._work(self._poll)

    def run(self, until: Callable[[], bool] | None = None) -> None:
        """Steps until that is true, or another thread, or a signal's handler, calls stop."""
        try:
            while not (self._stopping or until is not None and until()):
                self.step()
        finally:
            self._stopping = False

    def stop(self) -> None:
        """Ends run, the one under way or the next. From any thread, and from callbacks."""
        self._stopping = True
        try:
            self.wake()
        except Closed:
            pass  # it has ended

    def fd(self) -> int:
        """A descriptor that is readable when poll is to be called, until it returns 0; of a group also after sending. From then on step and
        run are not called. See tramway.aio for asyncio."""
        return self._run(self._fd)

    def wake(self) -> None:
        """From any thread: makes the descriptor readable, or ends the waiting of step."""
        self._wake(self._waker)
