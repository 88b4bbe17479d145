"""Where an analysis has its texts from: files, folders of files, folders in the BEIR layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmk_experiments.texts.files import TextFile

ENDINGS = (".jsonl", ".jsonl.gz", ".parquet", ".txt")
"""What is read of a folder that is not in the BEIR layout."""


@dataclass(frozen=True)
class Source:
    """Texts, which can be gone through as often as wanted."""

    name: str
    path: Path
    keys: tuple[str, ...]
    """Where rows have their texts; a list of texts counts as many."""

    def texts(self) -> Iterator[str]:
        """Each text.

        Raises:
            ValueError: with the file, the line and the key, for what is not there or no text.
        """
        if self._is_beir():
            from lmk_eval.tasks.folder import read_documents

            for _, _, title, text in read_documents(self.path / "corpus.jsonl"):
                yield f"{title} {text}".strip() if title else text
            return
        for file in self._files():
            for key in self.keys:
                yield from TextFile(file, key).each_text()

    def check(self) -> None:
        """Read the first text, so that a mistake is told before anything heavy is imported.

        Raises:
            ValueError: as `texts`, or where there is no text at all.
        """
        if next(self.texts(), None) is None:
            raise ValueError(f"{self.path}: there is no text in it")

    def _is_beir(self) -> bool:
        return (self.path / "corpus.jsonl").is_file()

    def _files(self) -> list[Path]:
        if self.path.is_file():
            return [self.path]
        if not self.path.is_dir():
            raise ValueError(f"{self.path}: no such file or folder")
        found = sorted(file for file in self.path.rglob("*") if file.is_file() and file.name.endswith(ENDINGS))
        if not found:
            raise ValueError(f"{self.path}: no file in this folder ends in {', '.join(ENDINGS)}")
        return found


def sources(given: Sequence[str], keys: str) -> list[Source]:
    """What was given as PATH or NAME=PATH, each looked at.

    Raises:
        ValueError: as `Source.check`, or for two of one name.
    """
    found = []
    for text in given:
        name, path = named(text)
        place = Path(path).expanduser()
        found.append(Source(name or place.name, place, tuple(key.strip() for key in keys.split(","))))
        found[-1].check()
    names = [one.name for one in found]
    if len(set(names)) < len(names):
        raise ValueError(f"{', '.join(names)}: two of one name; give names, such as short=PATH long=PATH")
    return found


def named(text: str) -> tuple[str | None, str]:
    """NAME=PATH in its two parts; the name is None where there is none.

    >>> named("long=out/model"), named("out/model"), named("a/b=c")
    (('long', 'out/model'), (None, 'out/model'), (None, 'a/b=c'))
    """
    name, sign, rest = text.partition("=")
    if not sign or not name or "/" in name or Path(text).expanduser().exists():
        return None, text
    return name, rest
