"""The task that MTEB runs on labelled texts: its own nearest-neighbour probe, macro-F1 as the main score."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datasets import Dataset, DatasetDict
from mteb.abstasks import AbsTaskMultilabelClassification

from lmk_eval.labels.folder import TRAIN, LabelledTexts, labels_fingerprint, read_labels
from lmk_eval.tasks.local import OwnFiles, local_metadata


class LocalMultilabel(OwnFiles, AbsTaskMultilabelClassification):  # ty: ignore[incompatible-property-override]
    """Multilabel classification on a folder, as MTEB scores MultiEURLEX.

    A probe of five neighbours learns from a few texts a label, ten times; all texts of the split are scored.

    Args:
        name: The task's name. MTEB knows the task as ``local.<name>``.
        folder: Holds ``train.jsonl`` and ``<split>.jsonl``.
        split: Which texts are scored.

    Raises:
        TaskDataError: if a file is missing (here), or can't be read (in `load_data`).
    """

    max_eval_samples: int | None = None

    def __init__(self, name: str, folder: str | Path, split: str = "test", **kwargs: Any) -> None:
        self.folder = Path(folder)
        self._metadata = local_metadata(
            name, labels_fingerprint(self.folder, split), [split], None, "Labelled texts in a local folder", labels=True
        )
        super().__init__(**kwargs)

    def load_data(self, num_proc: int | None = None, **_: Any) -> None:
        """Read and check the folder.

        Raises:
            TaskDataError: naming file, line and key of what can't be read.
        """
        if self.data_loaded:
            return
        (split,) = self.eval_splits
        train, scored = read_labels(self.folder, split)
        self.dataset = {"default": DatasetDict({TRAIN: _dataset(train), split: _dataset(scored)})}
        self.dataset_transform(num_proc=num_proc)
        self.data_loaded = True


def _dataset(texts: LabelledTexts) -> Dataset:
    return Dataset.from_dict({"text": texts.texts, "label": texts.labels})
