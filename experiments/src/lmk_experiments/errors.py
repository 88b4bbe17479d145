"""Errors of work that failed although what was asked for is right."""

from __future__ import annotations


class WorkFailed(RuntimeError):
    """Something that is needed cannot be used now, or is in use; the message says what, and what to do.

    The command line prints the message alone and ends with 1. What is wrong in the input is a ``ValueError``.
    """
