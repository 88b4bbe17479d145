"""Sentence Transformers' trainer, measured: its own losses and arguments, with rows in the file's order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from ends import Ends
from measuring import Meter, settings
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
    losses,
)
from sentence_transformers.base.sampler import DefaultBatchSampler
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from torch.utils.data import SequentialSampler


class InOrder(DefaultBatchSampler):
    """Rows meet in the same batches as elsewhere, so that losses can be compared."""

    def __init__(self, dataset: Any, **options: Any) -> None:
        super().__init__(SequentialSampler(dataset), **options)


class KeepLoss(torch.nn.Module):
    """A loss that remembers its values."""

    def __init__(self, loss: torch.nn.Module, meter: Meter) -> None:
        super().__init__()
        self.loss, self.meter = loss, meter

    def forward(self, features: Any, labels: Any) -> torch.Tensor:
        value = self.loss(features, labels)
        self.meter.losses.append(float(value))
        return value


def main() -> None:
    wanted = settings()
    torch.set_num_threads(1)
    torch.manual_seed(wanted["seed"])
    meter = Meter()
    transformer = Transformer(wanted["model"], max_seq_length=wanted["passage_max_length"])
    model = SentenceTransformer(
        modules=[transformer, Pooling(transformer.get_embedding_dimension(), "mean"), Normalize()], device="cpu"
    )
    rows = [json.loads(line) for line in Path(wanted["rows"]).read_text().splitlines()]
    columns = {"anchor": [row["query"] for row in rows], "positive": [row["pos"][0] for row in rows]}
    for place in range(wanted["negatives"]):
        columns[f"negative_{place + 1}"] = [row["neg"][place] for row in rows]
    options = wanted["options"]
    kind = losses.CachedMultipleNegativesRankingLoss if options else losses.MultipleNegativesRankingLoss
    loss = kind(model, scale=1 / wanted["temperature"], **options)
    trainer = SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(
            output_dir=wanted["out"],
            max_steps=wanted["steps"],
            per_device_train_batch_size=wanted["batch_size"],
            learning_rate=wanted["learning_rate"],
            seed=wanted["seed"],
            batch_sampler=InOrder,
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_dict(columns),
        loss=KeepLoss(loss, meter),
        callbacks=[Ends(meter)],
    )
    meter.watch(transformer.auto_model)
    trainer.train()
    meter.report()


if __name__ == "__main__":
    main()
