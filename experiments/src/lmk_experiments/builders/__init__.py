"""Data and models that are generated on the user's machine, so that a grid runs without any download.

``built:quickstart/train.jsonl`` in a config names them; `build` makes them, `locate` finds them.
"""

from lmk_experiments.builders.store import (
    BUILDERS,
    Builder,
    BuilderError,
    build,
    fingerprint,
    is_builtin_reference,
    locate,
)

__all__ = ["BUILDERS", "Builder", "BuilderError", "build", "fingerprint", "is_builtin_reference", "locate"]
