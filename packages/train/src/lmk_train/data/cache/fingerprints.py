"""What tokenized texts are a function of: a file's content, the tokenizer, and how texts are cut into sentences."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import uuid
from pathlib import Path

import tokenizers

from lmk_core.layouts import PoolingTokenizer
from lmk_core.layouts.sentences import splitter_to_text
from lmk_train.data.reading import file_format

FORMAT = 1
"""Raised when the files of the cache change, or what is read of a row."""


def cache_folder(configured: str | None) -> Path:
    """Where tokenized texts lie: as configured, ``$LMK_CACHE``, or ``~/.cache/lmk`` (``$XDG_CACHE_HOME/lmk``)."""
    if configured is not None:
        return Path(configured).expanduser()
    if found := os.environ.get("LMK_CACHE"):
        return Path(found).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "lmk"


def content_digest(path: Path, memory: Path) -> str:
    """Hex SHA-256 of a file's bytes; remembered in ``memory`` as long as size and time of change stay.

    A file that changes while it is read gets the digest of neither state, so nothing wrong is remembered.
    """
    path = path.resolve()
    status = path.stat()
    state = [status.st_size, status.st_mtime_ns]
    note = memory / f"{hashlib.sha256(str(path).encode()).hexdigest()[:32]}.json"
    try:
        known = json.loads(note.read_bytes())
        if known["state"] == state:
            return known["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    status = path.stat()
    if [status.st_size, status.st_mtime_ns] != state:
        return hashlib.sha256(uuid.uuid4().bytes).hexdigest()
    memory.mkdir(parents=True, exist_ok=True)
    # Jobs on several machines, or in containers, may have one process id.
    temporary = note.with_name(f".{note.name}.{secrets.token_hex(6)}")
    try:
        temporary.write_text(json.dumps({"path": str(path), "state": state, "sha256": digest}), encoding="utf-8")
        temporary.replace(note)
    finally:
        temporary.unlink(missing_ok=True)
    return digest


def tokenizer_digest(tokenizer: PoolingTokenizer) -> str:
    """Hex SHA-256 of everything that decides a text's plain ids.

    Somebody's own sentence splitter can't be told from another: it gets a new digest each time.
    """
    hf = tokenizer.hf_tokenizer
    if getattr(hf, "is_fast", False):
        content = _without_settings(hf.backend_tokenizer.to_str())
    else:
        content = json.dumps([type(hf).__qualname__, sorted(hf.get_vocab().items())])
    splitter = None
    if tokenizer.pooling.granularity == "sentence":
        assert tokenizer.sentence_splitter is not None
        splitter = splitter_to_text(tokenizer.sentence_splitter)
        if splitter == "custom":
            splitter = uuid.uuid4().hex
    parts = [tokenizers.__version__, splitter, content]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def cache_key(path: Path, content: str, tokenizer: str, prompt: str | None) -> str:
    """The name of the tokenized texts of one file; the file's ending decides how it is read."""
    text = json.dumps([FORMAT, file_format(path), content, tokenizer, prompt])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _without_settings(text: str) -> str:
    """A fast tokenizer without truncation and padding, which whoever used it last may have set."""
    values = json.loads(text)
    return json.dumps({**values, "truncation": None, "padding": None}, sort_keys=True)
