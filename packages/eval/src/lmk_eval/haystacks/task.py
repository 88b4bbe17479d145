"""The task that MTEB runs on haystacks: one split a length, as LongEmbed has them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mteb.abstasks import AbsTaskRetrieval

from lmk_eval.haystacks.make import CHARACTERS_A_TOKEN, RECIPE, Kind, make_haystack
from lmk_eval.suites.task import LENGTHS
from lmk_eval.tasks.folder import TaskDataError
from lmk_eval.tasks.groups import group_scores, per_query_scores
from lmk_eval.tasks.local import OwnFiles, local_metadata, split_data


class LocalHaystack(OwnFiles, AbsTaskRetrieval):  # ty: ignore[incompatible-property-override]
    """Passkeys or needles in documents cut from the user's own text.

    Args:
        name: The task's name. MTEB knows the task as ``local.<name>``.
        kind: What is hidden.
        path: The text, UTF-8.
        lengths: Of the documents, in tokens; a split ``test_<length>`` each.
        characters_a_token: See `make_haystack`.
        group_by: ``depth``: scores are also given by the quarter of the document in which the answer stands.

    Raises:
        TaskDataError: if the text can't be read or is empty.
    """

    def __init__(
        self,
        name: str,
        kind: Kind,
        path: str | Path,
        lengths: Sequence[int] | None = None,
        characters_a_token: float | None = None,
        group_by: str | None = None,
        **kwargs: Any,
    ) -> None:
        self.kind: Kind = kind
        self.text = _text(Path(path))
        self.lengths = {f"test_{length}": length for length in lengths or LENGTHS}
        self.characters_a_token = characters_a_token or CHARACTERS_A_TOKEN
        self.group_by = group_by
        self.depths: dict[str, dict[str, str]] = {}
        made_of = (self.text, self.kind, RECIPE, self.characters_a_token)
        revision = hashlib.sha256(repr(made_of).encode()).hexdigest()[:40]
        self._metadata = local_metadata(name, revision, list(self.lengths), group_by, f"A {kind} in long documents")
        super().__init__(**kwargs)

    def load_data(self, num_proc: int | None = None, **_: Any) -> None:
        """Make the documents and queries."""
        if self.data_loaded:
            return
        self.dataset = {"default": {}}
        for split, length in self.lengths.items():
            try:
                made = make_haystack(self.text, self.kind, length, self.characters_a_token)
            except ValueError as error:
                raise TaskDataError(f"{self.kind}: {error}") from None
            relevant = {query: {document: 1} for query, document in made.relevant.items()}
            documents = {key: ("", text) for key, text in made.documents.items()}
            self.dataset["default"][split] = split_data(documents, made.queries, relevant)
            self.depths[split] = {query: str(depth) for query, depth in made.depths.items()}
        self.dataset_transform(num_proc=num_proc)
        self.data_loaded = True

    def task_specific_scores(self, scores: dict[str, dict[str, float]], *_: Any, **said: Any) -> dict[str, Any]:
        """MTEB's hook: each query's scores, and their means by depth."""
        added: dict[str, Any] = per_query_scores(scores)
        if self.group_by == "depth":
            added.update(group_scores(scores, self.depths[said["hf_split"]], "depth"))
        return added


def _text(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise TaskDataError(f"{path}: not UTF-8: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise TaskDataError(f"{path}: {error.strerror or error}") from error
    if not text.strip():
        raise TaskDataError(f"{path}: is empty; a long text is needed to hide sentences in")
    return text
