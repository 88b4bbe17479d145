"""Retrieval quality on held-out rows while training."""

# ruff: noqa: ARG002 (hooks have Lightning's signatures)
from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor
from torchmetrics import MetricCollection
from torchmetrics.retrieval import RetrievalMRR, RetrievalNormalizedDCG, RetrievalRecall

from lmk_core import Embedder
from lmk_core.recording import Recorder
from lmk_train.data.reading import Rows

_KEPT = 100
"""Best passages of a query that are kept for the metrics, beside its positives; far more than the metrics' 10."""

_BLOCK = 256
"""Queries whose similarities are computed at once."""


class RetrievalValidation(Callback):
    """Ranks all passages of some rows, positives and negatives alike, for each query, every ``every`` steps.

    Args:
        embedder: Shares its weights with the model in training; its own pooling says how texts are read.
        rows: The held-out rows.
        recorder: Gets ``validation/ndcg_at_10``, ``validation/recall_at_10`` and ``validation/mrr_at_10``.
        every: Steps between two validations; ``None`` validates after the last step alone.
        query_max_length: Tokens of a query.
        passage_max_length: Tokens of a passage.
        bf16: Encode in bfloat16, as the training computes; the embedder would switch an outer autocast off.
    """

    def __init__(
        self,
        embedder: Embedder,
        rows: Rows,
        recorder: Recorder,
        *,
        every: int | None,
        query_max_length: int,
        passage_max_length: int,
        bf16: bool = False,
    ) -> None:
        self.embedder, self.recorder, self.every = embedder, recorder, every
        self.query_max_length, self.passage_max_length, self.bf16 = query_max_length, passage_max_length, bf16
        self.queries, self.passages, self.positives = pool_rows(rows)
        self.measured_at: int | None = None
        """The step of the last validation."""

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if validates_after(trainer.global_step, trainer.max_steps, self.every):
            self.run_as_trained(trainer, trainer.global_step)

    def run_as_trained(self, trainer: Trainer, step: int) -> dict[str, float]:
        """:meth:`run` on the device of the training."""
        self.embedder.module.to(trainer.strategy.root_device)
        return self.run(step)

    def run(self, step: int) -> dict[str, float]:
        """Measures the model as it is now and records it as of ``step``."""
        queries = self._vectors(self.queries, self.query_max_length)
        passages = self._vectors(self.passages, self.passage_max_length)
        relevant = torch.zeros(len(queries), len(passages), dtype=torch.bool)
        for query, found in enumerate(self.positives):
            relevant[query, found] = True
        values = retrieval_metrics(queries, passages, relevant)
        self.recorder.metrics(values, step)
        self.measured_at = step
        return values

    def _vectors(self, texts: list[str], max_length: int) -> Float[Tensor, "texts dim"]:
        return torch.from_numpy(self.embedder.encode(texts, max_length=max_length, bf16=self.bf16))


def validates_after(step: int, steps: int, every: int | None) -> bool:
    """Whether a validation follows on ``step`` of ``steps``."""
    return step == steps or (every is not None and step % every == 0)


def pool_rows(rows: Rows) -> tuple[list[str], list[str], list[list[int]]]:
    """Queries, distinct passages, and each query's positives as indices of passages. Equal queries are one query."""
    passages: dict[str, int] = {}
    positives: dict[str, set[int]] = {}
    for row in rows:
        found = positives.setdefault(row.query, set())
        found.update(passages.setdefault(text, len(passages)) for text in row.positives)
        for text in row.negatives:
            passages.setdefault(text, len(passages))
    return list(positives), list(passages), [sorted(found) for found in positives.values()]


def retrieval_metrics(
    queries: Float[Tensor, "queries dim"],
    passages: Float[Tensor, "passages dim"],
    relevant: Bool[Tensor, "queries passages"],
) -> dict[str, float]:
    """nDCG, recall and reciprocal rank at 10 of the cosine ranking, averaged over queries.

    Example:
        >>> queries, passages = torch.eye(2), torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
        >>> relevant = torch.tensor([[True, False, False], [False, False, True]])
        >>> retrieval_metrics(queries, passages, relevant)["validation/mrr_at_10"]
        0.75
    """
    # Not synced: one process of a training validates while the others wait elsewhere.
    metrics = MetricCollection(
        {
            "validation/ndcg_at_10": RetrievalNormalizedDCG(top_k=10, sync_on_compute=False),
            "validation/recall_at_10": RetrievalRecall(top_k=10, sync_on_compute=False),
            "validation/mrr_at_10": RetrievalMRR(top_k=10, sync_on_compute=False),
        },
        compute_groups=False,
    )
    for start in range(0, len(queries), _BLOCK):
        scores = queries[start : start + _BLOCK] @ passages.T
        wanted = relevant[start : start + _BLOCK]
        # Metrics at 10 depend on the ten best and on the number of positives: the rest need not be kept.
        best = scores.topk(min(_KEPT, scores.shape[1]), dim=1).indices
        kept = wanted.scatter(1, best, True)
        owners = torch.arange(start, start + len(scores))[:, None].expand_as(scores)
        metrics.update(scores[kept], wanted[kept], indexes=owners[kept])
    return {name: float(value) for name, value in metrics.compute().items()}
