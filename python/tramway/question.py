"""What was asked or sent, and what becomes of it."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .errors import Again
from .view import Answer

__all__ = ["Question"]


class Question:
    """A call or query of a member or a client, or a message of a client: it is done when all answers have come, which happens
    while its handle is stepped or polled."""

    def __init__(self, ticket: int) -> None:
        self.ticket = ticket
        self.answers: list[Answer] = []
        self.done = False
        self._then: list[Callable[[Question], Any]] = []

    def then(self, function: Callable[[Question], Any]) -> None:
        """Calls it when this is done; at once if it is."""
        if self.done:
            function(self)
        else:
            self._then.append(function)

    @property
    def answer(self) -> Answer:
        """Of a query, or of what a client asks: the only one. Raises its error if it is one."""
        if not self.done:
            raise Again("it is not answered yet: step or poll")
        if self.answers[0].error is not None:
            raise self.answers[0].error
        return self.answers[0]

    def _finish(self) -> None:
        self.done = True
        then, self._then = self._then, []
        for function in then:
            function(self)
