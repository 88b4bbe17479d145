"""Training in Sentence Transformers' own trainer: which sizes are drawn when, and that its forward is ours."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import (
    CachedMultipleNegativesRankingLoss,
    MultipleNegativesRankingLoss,
)
from torch.utils.data import DataLoader

from lmk_core import Embedder, PoolingConfig, load_sentence_transformer
from lmk_core.encoders import PooledEncoder
from lmk_core.hub.features import one_layout

SIZES = (4, 8, 16)
VARIABLE = PoolingConfig("landmark", granularity=SIZES)


@pytest.fixture
def embedder(tiny_model_folder):
    return Embedder.from_pretrained(tiny_model_folder, VARIABLE, max_length=60)


@pytest.fixture
def model(embedder, tmp_path):
    return load_sentence_transformer(embedder.save_pretrained(tmp_path / "start"))


def sizes_of(embedder, texts, features):
    """The chunk sizes by which the layouts of a batch were made."""
    found = []
    for row, text in enumerate(texts):
        ids = features["input_ids"][row][features["attention_mask"][row] == 1].tolist()
        fitting = [size for size in SIZES if embedder.tokenizer.layouts([text], granularity=size)[0].input_ids == ids]
        assert len(fitting) == 1
        found.append(fitting[0])
    return found


def drawn_sizes(embedder, model, texts):
    return sizes_of(embedder, texts, one_layout(model.preprocess(texts), drawn=True))


def test_a_size_is_drawn_for_each_text(embedder, model, texts_of):
    texts = texts_of([40] * 40)
    states = torch.get_rng_state(), random.getstate(), str(np.random.get_state())
    features = model.preprocess(texts)
    assert (random.getstate(), str(np.random.get_state())) == states[1:]
    assert torch.equal(torch.get_rng_state(), states[0])
    sizes = sizes_of(embedder, texts, one_layout(features, drawn=True))
    assert min(sizes.count(size) for size in SIZES) >= 5
    assert sizes_of(embedder, texts, one_layout(features, drawn=False)) == [4] * 40
    with torch.inference_mode():
        assert set(model.preprocess(texts)) == {"input_ids", "attention_mask", "pooling_mask", "modality"}


def test_the_draw_is_of_the_seed_and_the_training_pass(embedder, model, texts_of):
    texts = texts_of([40] * 20)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        first = drawn_sizes(embedder, model, texts)
        assert drawn_sizes(embedder, model, texts) == first
        model.eval()
        model(model.preprocess(texts))
        model.encode(texts)
        assert drawn_sizes(embedder, model, texts) == first
        model.train()
        model(model.preprocess(texts))
        assert drawn_sizes(embedder, model, texts) != first
        torch.manual_seed(4)
        model[0]._passes = 0
        assert drawn_sizes(embedder, model, texts) != first
        torch.manual_seed(3)
        assert drawn_sizes(embedder, model, texts) == first


def test_the_draw_in_workers(embedder, model, texts_of):
    """Each epoch, and each batch of a worker, has sizes of its own, though no worker sees a training pass."""
    texts = texts_of([40] * 8) * 2

    def epochs():
        with torch.random.fork_rng():
            torch.manual_seed(3)
            loader = DataLoader(texts, batch_size=8, collate_fn=model.preprocess, num_workers=1)
            batches = [one_layout(batch, drawn=True) for _ in range(2) for batch in loader]
            return [sizes_of(embedder, texts[:8], batch) for batch in batches]

    found = epochs()
    assert len({tuple(sizes) for sizes in found}) == 4
    assert epochs() == found


@pytest.mark.parametrize("training", [True, False])
def test_the_forward_is_ours(embedder, model, texts_of, training):
    texts = ["", *texts_of([1, 7, 40, 100]), "the [SEP] river </s> of <s> [CLS] stone"]
    model.train(training)
    features = model.preprocess(texts)
    batch = one_layout(features, drawn=training)
    wanted = embedder.module(batch["input_ids"], batch["attention_mask"], batch["pooling_mask"])
    found = model(dict(features))
    torch.testing.assert_close(found["sentence_embedding"], wanted, atol=1e-5, rtol=0)
    assert torch.equal(found["attention_mask"], batch["attention_mask"])
    assert not any(name.startswith(("drawn", "read")) for name in found)


OTHER_KINDS = [
    PoolingConfig("cls"),
    PoolingConfig("multi_cls", every=8),
    PoolingConfig("mean"),
    PoolingConfig("mean_at_k", k=8),
    PoolingConfig("latent_attention", num_latents=6),
    PoolingConfig("landmark", granularity=8),
    PoolingConfig("landmark", granularity="sentence"),
]


@pytest.mark.parametrize("pooling", OTHER_KINDS, ids=lambda pooling: str(pooling.to_dict()))
def test_the_trainers_forward_is_ours_for_every_kind(tiny_model_folder, texts_of, tmp_path, pooling):
    """From rows through the trainer's own collator and loss, with special tokens' characters in the texts."""
    embedder = Embedder.from_pretrained(tiny_model_folder, pooling, max_length=60)
    model = load_sentence_transformer(embedder.save_pretrained(tmp_path / "model"))
    texts = ["", "the [SEP] river </s>. of <s> [CLS] [PAD] stone", *texts_of([40, 9])]
    rows = Dataset.from_dict({"anchor": texts, "positive": texts[::-1]})
    arguments = SentenceTransformerTrainingArguments(str(tmp_path / "run"), use_cpu=True, report_to="none")
    loss = MultipleNegativesRankingLoss(model)
    trainer = SentenceTransformerTrainer(model, arguments, train_dataset=rows, loss=loss)
    features, _ = trainer.collect_features(trainer.data_collator(list(rows)))
    model.train()
    for feature, own in zip(features, (texts, texts[::-1]), strict=True):
        with torch.no_grad():
            wanted = embedder.module(**embedder.tokenizer(own))
        found = model(dict(feature))["sentence_embedding"]
        assert found.requires_grad
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)


class Watched(MultipleNegativesRankingLoss):
    """Compares each forward of the trainer's with ours, and notes the share of the tokens that are landmarks."""

    def __init__(self, model, embedder):
        super().__init__(model)
        self.embedder = embedder
        self.seen = {True: [], False: []}

    def forward(self, sentence_features, labels=None):
        features = list(sentence_features)
        ours = PooledEncoder(self.model[0].model, VARIABLE)
        for feature in features:
            batch = one_layout(feature, drawn=self.model.training)
            names = ("input_ids", "attention_mask", "pooling_mask")
            wanted = ours(*(batch[name] for name in names))
            found = self.model(dict(feature))["sentence_embedding"]
            torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)
            self.seen[self.model.training] += batch["pooling_mask"].sum(1).tolist()
        return super().forward(features, labels)


def trained(model, embedder, texts, folder, seed=1):
    rows = Dataset.from_dict({"anchor": texts[:8], "positive": texts[8:16]})
    loss = Watched(model, embedder)
    arguments = SentenceTransformerTrainingArguments(
        str(folder),
        max_steps=4,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=8,
        eval_strategy="steps",
        eval_steps=1,
        learning_rate=1e-3,
        seed=seed,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )
    SentenceTransformerTrainer(model, arguments, train_dataset=rows, eval_dataset=rows, loss=loss).train()
    return loss.seen


def test_training_in_its_trainer(embedder, model, texts_of, tmp_path):
    """Drawn in every training pass, also right behind an evaluation; the smallest in every evaluation."""
    texts = texts_of([30] * 16)
    before = model.encode(texts)
    counts = {size: len(embedder.tokenizer.layouts(texts[:1], granularity=size)[0].pooled) for size in SIZES}
    smallest = embedder.tokenizer.layouts(texts, granularity=4)
    seen = trained(model, embedder, texts, tmp_path / "run")
    assert len(seen[True]) == 4 * 2 * 4
    assert seen[False] == [len(layout.pooled) for layout in smallest] * 4
    for step in range(4):
        batch = seen[True][8 * step : 8 * step + 8]
        assert min(batch) < counts[4] - 2, "no larger size in this step"
    # Again from the start, with the same seed and another one.
    for seed, same in ((1, True), (2, False)):
        again = load_sentence_transformer(tmp_path / "start")
        assert (trained(again, embedder, texts, tmp_path / "run", seed) == seen) == same
        assert (np.abs(again.encode(texts) - model.encode(texts)).max() < 1e-6) == same
    after = model.encode(texts)
    assert np.abs(after - before).max() > 1e-2
    model.save_pretrained(str(tmp_path / "trained"))
    reloaded = SentenceTransformer(str(tmp_path / "trained"), trust_remote_code=True)
    np.testing.assert_allclose(reloaded.encode(texts), after, atol=1e-5)
    np.testing.assert_allclose(Embedder.from_pretrained(tmp_path / "trained").encode(texts), after, atol=1e-5)


@pytest.mark.parametrize("options", [{"mini_batch_size": 3}, {"mini_batch_num_tokens": 100}])
def test_gradient_cached_losses_see_the_same_tokens(model, texts_of, options):
    """Chunks are cut down to the wider of the two layouts, and both passes over one take the same."""
    model.train()
    columns = [model.preprocess(texts_of(lengths)) for lengths in ([3, 40, 1, 20, 9], [90, 2, 30, 12, 50])]
    gradients = []
    for loss in (MultipleNegativesRankingLoss(model), CachedMultipleNegativesRankingLoss(model, **options)):
        model.zero_grad()
        loss([dict(column) for column in columns], None).backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    for plain, cached in zip(*gradients, strict=True):
        torch.testing.assert_close(cached, plain, atol=1e-5, rtol=1e-4)


def test_latents_that_were_trained_there(tiny_model_folder, texts_of, tmp_path):
    """Their weights come back from where Sentence Transformers writes them, also over older ones."""
    texts = texts_of([20, 40])
    start = Embedder.from_pretrained(tiny_model_folder, "latent_attention").save_pretrained(tmp_path / "model")
    model = SentenceTransformer(str(start), trust_remote_code=True)
    with torch.no_grad():
        model[1].reduction.latents.mul_(3)
    expected = model.encode(texts)
    for folder in (start, tmp_path / "other"):
        model.save_pretrained(str(folder))
        np.testing.assert_allclose(Embedder.from_pretrained(folder).encode(texts), expected, atol=1e-5)
        again = SentenceTransformer(str(folder), trust_remote_code=True)
        np.testing.assert_allclose(again.encode(texts), expected, atol=1e-5)
