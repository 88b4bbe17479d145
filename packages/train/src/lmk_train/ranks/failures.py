"""How a rank failed, and which of several failures was the cause of the others."""

from __future__ import annotations

import base64
import contextlib
import pickle
import traceback
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

_TRACE_LINES = 60


class RankFailedError(RuntimeError):
    """A rank ended before the training did; the message names it and its error."""


@dataclass(frozen=True)
class RankFailure:
    """What became of one rank.

    Attributes:
        rank, size, host: Which one, of how many, and where it ran.
        reason: Its error in one line, or how it was ended.
        trace: The end of its traceback; empty when it could say nothing.
        echo: Its error only says that another rank is gone.
        at: When it failed, in seconds of one clock.
    """

    rank: int
    size: int
    host: str
    reason: str
    trace: str = ""
    echo: bool = False
    at: float = 0.0

    @property
    def kind(self) -> str:
        """The type of its error, by its name."""
        return self.reason.partition(":")[0]

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.size} on {self.host}: {self.reason}"

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a message or a record."""
        return asdict(self)

    def event(self) -> dict[str, Any]:
        """The fields of the event ``rank_failed``."""
        return {"rank": self.rank, "processes": self.size, "host": self.host, "reason": str(self), "trace": self.trace}


def describe(error: BaseException) -> dict[str, Any]:
    """``reason``, ``trace`` and ``echo`` of an error."""
    first = str(error).strip().split("\n")[0]
    lines = traceback.format_exception(error)
    return {
        "reason": f"{type(error).__name__}: {first}" if first else type(error).__name__,
        "trace": "".join(lines[-_TRACE_LINES:]),
        "echo": _is_echo(error),
    }


def cause_of(failures: Iterable[RankFailure]) -> RankFailure:
    """The failure that the others followed from: the first that is no echo, else the first."""
    return min(failures, key=lambda failure: (failure.echo, failure.at))


def packed(error: BaseException) -> str:
    """An exception as text; empty for one that cannot be brought into another process."""
    # Some are made from other arguments than those that they keep: these are brought over part by part.
    for content in (error, (type(error), error.args, vars(error))):
        with contextlib.suppress(Exception):
            text = base64.b64encode(pickle.dumps(content)).decode()
            if type(unpacked(text)) is type(error):
                return text
    return ""


def unpacked(text: str) -> BaseException | None:
    """The exception, if it can be made here. The text comes from a process of this very training."""
    with contextlib.suppress(Exception):
        content = pickle.loads(base64.b64decode(text))  # noqa: S301 - see above
        if isinstance(content, BaseException):
            return content
        kind, arguments, state = content
        error = kind.__new__(kind)
        error.args = arguments
        vars(error).update(state)
        return error
    return None


def _is_echo(error: BaseException) -> bool:
    # Gloo's own errors are plain RuntimeErrors; torch's are told by their type.
    words = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "gloo/transport")
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return bool(kinds & {"PeerFailedError", "DistError"}) or (
        isinstance(error, RuntimeError) and any(word in str(error) for word in words)
    )
