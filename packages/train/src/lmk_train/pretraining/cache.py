"""Tokenized texts with their words, mapped into memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmk_train.data.cache.building import FileCache
from lmk_train.data.cache.files import META, findings_in
from lmk_train.data.reading import Findings
from lmk_train.data.reading.files import is_plain_text
from lmk_train.pretraining.reading import CHARACTERS_A_TOKEN, check_findings, read_texts
from lmk_train.pretraining.tokens import WordTokens, cut_tokens, read_tokens, text_room

FORMAT = 2
"""Raised when the files change, or what is read of a row."""

IDS, BEGINS, BOUNDS = "ids.bin", "begins.bin", "bounds.bin"
ENDS, END_BOUNDS = "ends.bin", "end_bounds.bin"


class TextFile:
    """The tokenized texts of a folder of the cache. It can be pickled: another process maps the same files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.meta: dict[str, Any] = json.loads((folder / META).read_bytes())
        self.bounds = np.fromfile(folder / BOUNDS, dtype=np.int64)
        self.ids = _mapped(folder / IDS, np.int32)
        self.begins = _mapped(folder / BEGINS, np.bool_)
        self.end_bounds = np.fromfile(folder / END_BOUNDS, dtype=np.int64)
        self.ends = _mapped(folder / ENDS, np.int32)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, index: int) -> WordTokens:
        """A text."""
        own = slice(int(self.bounds[index]), int(self.bounds[index + 1]))
        ends = slice(int(self.end_bounds[index]), int(self.end_bounds[index + 1]))
        return WordTokens(np.array(self.ids[own]), np.array(self.begins[own]), np.array(self.ends[ends]))

    def __reduce__(self) -> tuple[type[TextFile], tuple[Path]]:
        return type(self), (self.folder,)


class TextCache(FileCache):
    """The texts of files, tokenized, with their words."""

    def texts(self, path: Path) -> tuple[TextFile, Findings]:
        """The tokenized texts of a file, and what was found in it.

        Raises:
            DataError: The file is damaged, holds no text, or more faulty rows than ``max_faulty``.
        """
        file = TextFile(self.made(path))
        findings = findings_in(file.meta, path)
        check_findings(findings, path, self.max_faulty)
        return file, findings

    def _key(self, path: Path, content: str, tokenizer: str) -> str:
        kind = "".join(path.suffixes[-2:])
        room = self._room if is_plain_text(path) else None
        return hashlib.sha256(json.dumps(["texts", FORMAT, kind, content, tokenizer, room]).encode()).hexdigest()[:32]

    @property
    def _room(self) -> int:
        return text_room(self.tokenizer.pooling, self.max_length)

    def _find(self, place: Path) -> Path | None:
        """Not a longer one: where a plain text is cut depends on the length."""
        found = place / f"cut-{self.max_length}"
        return found if found.is_dir() else None

    def _write(self, path: Path, folder: Path) -> None:
        findings = Findings()
        lengths, sentences = [0], [0]
        names = (IDS, BEGINS, ENDS)
        with ExitStack() as opened:
            files = [opened.enter_context((folder / name).open("wb")) for name in names]
            for text in self._texts(path, findings):
                for file, values in zip(files, (text.ids, text.begins, text.ends), strict=True):
                    file.write(values.tobytes())
                lengths.append(len(text))
                sentences.append(len(text.ends))
        for name, counts in ((BOUNDS, lengths), (END_BOUNDS, sentences)):
            np.cumsum(counts).astype(np.int64).tofile(folder / name)
        check_findings(findings, path, self.max_faulty)
        self._conclude(path, folder, findings)

    def _texts(self, path: Path, findings: Findings) -> Iterator[WordTokens]:
        """A row's text is one, cut at the longest that a layout can have; a plain text is as many as it needs."""
        plain = is_plain_text(path)
        for texts in self._text_groups(path, findings):
            for text in read_tokens(self.tokenizer, texts, None if plain else self.max_length):
                yield from cut_tokens(text, self._room) if plain else [text]

    def _text_groups(self, path: Path, findings: Findings) -> Iterator[list[str]]:
        longest = CHARACTERS_A_TOKEN * self.max_length
        read = read_texts(path, findings, characters=longest, progress=self._progress(path))
        return self._in_groups((text for _, text in read), len, findings)


def _mapped(path: Path, dtype: Any) -> NDArray[Any]:
    return np.memmap(path, dtype=dtype, mode="r") if path.stat().st_size else np.zeros(0, dtype=dtype)
