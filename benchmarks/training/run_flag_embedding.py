"""FlagEmbedding's trainer, measured: its own runner and arguments, with rows in the file's order."""

from __future__ import annotations

from typing import Any

import torch
from ends import Ends
from FlagEmbedding.finetune.embedder.encoder_only.base import (
    EncoderOnlyEmbedderDataArguments,
    EncoderOnlyEmbedderModelArguments,
    EncoderOnlyEmbedderRunner,
    EncoderOnlyEmbedderTrainingArguments,
)
from measuring import Meter, settings
from torch.utils.data import SequentialSampler


def main() -> None:
    wanted = settings()
    torch.set_num_threads(1)
    meter = Meter()
    runner = EncoderOnlyEmbedderRunner(
        model_args=EncoderOnlyEmbedderModelArguments(model_name_or_path=wanted["model"]),
        data_args=EncoderOnlyEmbedderDataArguments(
            train_data=[wanted["rows"]],
            cache_path=wanted["cache"],
            train_group_size=1 + wanted["negatives"],
            query_max_len=wanted["query_max_length"],
            passage_max_len=wanted["passage_max_length"],
        ),
        training_args=EncoderOnlyEmbedderTrainingArguments(
            output_dir=wanted["out"],
            max_steps=wanted["steps"],
            per_device_train_batch_size=wanted["batch_size"],
            learning_rate=wanted["learning_rate"],
            temperature=wanted["temperature"],
            sentence_pooling_method="mean",
            normalize_embeddings=True,
            seed=wanted["seed"],
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            **wanted["options"],
        ),
    )
    trainer = runner.trainer
    # Rows meet in the same batches as elsewhere, so that losses can be compared.
    trainer._get_train_sampler = lambda *_: SequentialSampler(trainer.train_dataset)
    compute = trainer.compute_loss

    def and_keep(*args: Any, **options: Any) -> Any:
        loss = compute(*args, **options)
        meter.losses.append(float(loss[0] if isinstance(loss, tuple) else loss))
        return loss

    trainer.compute_loss = and_keep
    trainer.add_callback(Ends(meter))
    meter.watch(runner.model.model)
    trainer.train()
    meter.report()


if __name__ == "__main__":
    main()
