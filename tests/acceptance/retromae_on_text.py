"""RetroMAE on a real text: do both losses fall, and does the decoder read the pooled vector?

Pre-trains a small new encoder (ModernBERT or gte) on all but the last tenth of a plain text and then measures the
decoder's loss on that tenth: with the texts' own pooled vectors, and with those of other texts of the batch. Only a
decoder that uses the vector, and an encoder that puts something into it, make the second one worse. Some minutes on one
core.

    python tests/acceptance/retromae_on_text.py FILE.txt [--pooling landmark|variable|cls] [--encoder modernbert|gte]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    GteConfig,
    GteModel,
    ModernBertConfig,
    ModernBertModel,
    PreTrainedTokenizerFast,
)

from lmk_core.recording import NullRecorder
from lmk_train import PretrainConfig, TrainConfig, pretrain, train
from lmk_train.callbacks.recording import MetricsReporter
from lmk_train.config import PretrainDataConfig
from lmk_train.fitting import make_trainer, pre_training, seed_everything
from lmk_train.pretraining import PretrainingData
from lmk_train.ranks.group import Ranks
from lmk_train.retromae import pack_masked

POOLINGS = {
    "cls": {"kind": "cls"},
    "landmark": {"kind": "landmark", "granularity": 8},
    "variable": {"kind": "landmark", "granularity": [4, 8, 16]},
}


ENCODERS = {"modernbert": (ModernBertConfig, ModernBertModel), "gte": (GteConfig, GteModel)}


class Printing(NullRecorder):
    """Shows the losses, and keeps them."""

    def __init__(self) -> None:
        self.losses: list[tuple[int, float, float]] = []
        self.events: list[tuple[str, dict[str, Any]]] = []

    def metrics(self, values: Any, step: int) -> None:
        if "train/encoder_loss" in values:
            self.losses.append((step, values["train/encoder_loss"], values["train/decoder_loss"]))
            print("step {:5}  encoder {:.3f}  decoder {:.3f}".format(*self.losses[-1]), flush=True)

    def event(self, kind: str, **fields: Any) -> None:
        self.events.append((kind, fields))


def main() -> None:
    """Pre-trains, measures, and starts a fine-tune."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--pooling", choices=POOLINGS, default="landmark")
    parser.add_argument("--encoder", choices=ENCODERS, default="modernbert")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=32)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        _run(asked, Path(name))


def _run(asked: argparse.Namespace, folder: Path) -> None:
    text = asked.file.read_text(encoding="utf-8")
    cut = text.index("\n\n", len(text) * 9 // 10)
    for part, content in (("train", text[:cut]), ("test", text[cut:])):
        (folder / f"{part}.txt").write_text(content, encoding="utf-8")
    make_encoder(folder / "base", text[:cut], asked.length, asked.encoder)
    values = {
        "method": "retromae",
        "model": {"path": str(folder / "base")},
        "pooling": POOLINGS[asked.pooling],
        "data": {"train": [str(folder / "train.txt")], "max_length": asked.length, "cache": str(folder / "cache")},
        "optim": {"steps": asked.steps, "batch_size": asked.batch, "learning_rate": 2e-3, "warmup_steps": 100},
        "runtime": {"accelerator": "cpu", "threads": 1, "log_every": max(asked.steps // 15, 1)},
    }
    config = PretrainConfig.model_validate(values)
    recorder, began = Printing(), time.monotonic()
    seed_everything(0)
    work = pre_training(config, recorder, Ranks())
    print(f"{work.data.rows} texts of {asked.length} tokens, {asked.encoder}, pooling {asked.pooling}", flush=True)
    trainer = make_trainer(config, folder, [MetricsReporter(recorder, config.runtime.log_every, asked.steps)])
    trainer.fit(work.module, datamodule=work.data)
    print(f"trained for {time.monotonic() - began:.0f} s")
    true, shuffled = held_out(work.module, config, folder / "test.txt")
    margin = shuffled - true
    error = margin.std(ddof=1) / len(margin) ** 0.5
    print(
        f"held out, {len(true)} batches: decoder {true.mean():.4f} with the texts' own vectors, {shuffled.mean():.4f} "
        f"with those of others; margin {margin.mean():.4f} +- {error:.4f} (standard error), smallest {margin.min():.4f}"
    )
    first, last = recorder.losses[0], recorder.losses[-1]
    fine_tune(config, folder)
    assert last[1] < first[1], "the encoder's loss did not fall"
    assert last[2] < first[2], "the decoder's loss did not fall"
    assert margin.mean() > 3 * error, "the decoder does not use the pooled vector"


@torch.no_grad()
def held_out(module: Any, config: PretrainConfig, file: Path) -> tuple[np.ndarray, np.ndarray]:
    """The decoder's mean loss of each batch with true and with shuffled vectors."""
    data = PretrainDataConfig(train=(str(file),), max_length=config.data.max_length, cache=config.data.cache)
    tokenizer = module.trainer.datamodule.collator.tokenizer
    rows = PretrainingData(config.model_copy(update={"data": data}), tokenizer)
    model = module.model.eval()
    true, shuffled = [], []
    for step in range(rows.order().batches_per_epoch):
        keys = rows.order().step(step)
        batch = pack_masked(rows.collator([rows.texts[key] for key in keys]).texts)
        pooled = model.pooled(model.hidden_states(batch), batch)
        for losses, vectors in ((true, pooled), (shuffled, pooled.roll(1, 0))):
            losses.append(float(model.decoder_loss(vectors, batch)) / len(batch.guessed))
    return np.array(true), np.array(shuffled)


def fine_tune(config: PretrainConfig, folder: Path) -> None:
    """Two steps of a fine-tune that starts from two of a pre-training."""
    few = config.model_copy(update={"optim": config.optim.model_copy(update={"steps": 2, "warmup_steps": 0})})
    pretrain(few, folder / "pretrained")
    rows = folder / "rows.jsonl"
    rows.write_text('{"query": "a truth", "pos": ["a truth universally acknowledged"], "neg": ["pride"]}\n' * 4)
    recorder = Printing()
    tuned = TrainConfig.model_validate(
        {
            "model": {"path": config.model.path},
            "pooling": config.pooling,
            "init": str(folder / "pretrained"),
            "data": {"train": [str(rows)], "negatives": 1, "passage_max_length": 64, "query_max_length": 64},
            "optim": {"steps": 2, "batch_size": 2, "learning_rate": 1e-4},
            "runtime": {"accelerator": "cpu", "threads": 1},
        }
    )
    train(tuned, folder / "tuned", recorder)
    print("fine-tune:", next(fields for kind, fields in recorder.events if kind == "initialized"))


def make_encoder(folder: Path, text: str, length: int, kind: str) -> None:
    """A new encoder of 2 layers and 64 dimensions, and a byte-level BPE of 2,000 pieces."""
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        text.split("\n\n"),
        trainers.BpeTrainer(vocab_size=2000, special_tokens=special, initial_alphabet=alphabet, show_progress=False),
    )
    named = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "cls", "sep", "unk", "mask")}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named)
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    make_config, make_model = ENCODERS[kind]
    config = make_config(
        vocab_size=len(fast),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=max(length, 64),
        **{f"{name}_token_id": getattr(fast, f"{name}_token_id") for name in ("pad", "cls", "sep")},
        bos_token_id=fast.cls_token_id,
        eos_token_id=fast.sep_token_id,
    )
    make_model(config).save_pretrained(folder)


if __name__ == "__main__":
    main()
