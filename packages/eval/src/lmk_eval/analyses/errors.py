"""What can go wrong in an analysis."""

from __future__ import annotations


class AnalysisError(ValueError):
    """An analysis cannot be made of what was given. The message names the key and the valid values."""
