"""The library's codes as exceptions. The text of each is the library's, and names what was attempted on what."""
from __future__ import annotations

__all__ = ["Error", "Invalid", "NoMemory", "SystemFailed", "Exists", "NotFound", "TooBig", "Again", "Refused", "TimedOut",
           "Broken", "DataLost", "Violated", "Lost", "Closed", "Misused"]


class Error(Exception):
    """What the library returns as a negative code, which is in `code`."""

    code = 0
    kinds: dict[int, type[Error]] = {}

    def __init_subclass__(cls, code: int = 0) -> None:
        if code:
            cls.code = code
            Error.kinds[code] = cls

    @staticmethod
    def of(code: int, text: str) -> Error:
        """The exception of a code; of one that this package does not know yet, a plain Error that has it."""
        error = Error.kinds.get(code, Error)(text)
        error.code = code
        return error


class Invalid(Error, ValueError, code=-1):
    """An argument, or the cluster file, is wrong."""


class NoMemory(Error, MemoryError, code=-2):
    """Heap or shared memory is used up."""


class SystemFailed(Error, code=-3):
    """A system call failed."""


class Exists(Error, code=-4):
    """Another live process is this host, or all places for clients are taken."""


class NotFound(Error, LookupError, code=-5):
    """There is no such file, host, group, cell or request."""


class TooBig(Error, code=-6):
    """A message is larger than the cluster file allows, or a reply than there is room for."""


class Again(Error, code=-7):
    """Not now: poll or step, then try again."""


class Refused(Error, code=-8):
    """It is not allowed, or all hosts were stopped."""


class TimedOut(Error, TimeoutError, code=-9):
    """The time given is over. The message of a call may still be delivered: `ticket` is its own, to be awaited again."""

    ticket: int | None = None


class Broken(Error, code=-10):
    """A replica saw what cannot be, or its state machine has failed: it has stopped."""


class DataLost(Error, code=-11):
    """A group lost the memory of its majority: what it had is gone."""


class Violated(Error, code=-12):
    """The simulator: replicas differ, or what is promised does not hold."""


class Lost(Error, code=-13):
    """Who was asked is gone, and did not answer."""


class Closed(Error):
    """The handle is closed, or was opened by the process that this one was forked from."""


class Misused(Error):
    """Two threads use a handle at once, or a callback steps, polls, waits with or closes its own handle."""
