"""Finds libtram and checks that it is one that this package can work with."""
import ctypes
import os

from ._functions import declare
from .errors import Error

# The headers that this package was written for. A library of the same soname that is not older will do.
HEADERS = (0, 1, 0)
SONAME = "libtram.so.0"


def numbers(version: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in version.split("."))
    except ValueError:
        return ()


def check_version(version: str, path: str) -> None:
    have = numbers(version)
    if have[:1] != HEADERS[:1] or have < HEADERS:
        wanted = ".".join(map(str, HEADERS))
        raise ImportError(f"{path} is version {version or '(none)'} of libtram; tramway needs {wanted}, or a later one of {SONAME}")


def load() -> ctypes.CDLL:
    """TRAMWAY_LIBRARY in the environment names the file; else the linker looks for it, as for any program."""
    path = os.environ.get("TRAMWAY_LIBRARY") or SONAME
    try:
        library = ctypes.CDLL(path)
    except OSError as e:
        raise ImportError(f"{e}; install libtram0, or name the library in TRAMWAY_LIBRARY") from None
    try:
        library.tram_version.restype = ctypes.c_char_p
        check_version(library.tram_version().decode(), path)
        declare(library)
    except AttributeError as e:
        raise ImportError(f"{path} is not the libtram that tramway needs: {e}") from None
    return library


lib = load()


def version() -> str:
    """That of the library."""
    text: bytes = lib.tram_version()
    return text.decode()


def raise_code(code: int, text: bytes = b"") -> None:
    """Raises the exception of a negative code, with the library's text."""
    if code < 0:
        raise Error.of(code, (text or lib.tram_code_text(code)).decode(errors="replace"))
