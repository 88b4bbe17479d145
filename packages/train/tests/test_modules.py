from __future__ import annotations

import pytest
import torch

from lmk_core import Embedder
from lmk_train.data import ContrastiveData, RowKey
from lmk_train.data.sampling import draw_negatives
from lmk_train.loss import distillation, info_nce, similarity_logits
from lmk_train.modules import ContrastiveModule, warmup_then_decay
from lmk_train.modules.stepping import make_optimizer


@pytest.fixture
def setting(make_config, make_rows, write_rows, tmp_path):
    """A module in evaluation mode and the first batch, half of whose rows have scores."""

    def make(**changes):
        rows = make_rows(4, scores=True) + make_rows(4, seed=1)
        path = write_rows(tmp_path / "rows.jsonl", rows)
        config = make_config(data__train=[str(path)], **changes)
        embedder = Embedder.from_pretrained(config.model.path, pooling=config.pooling, max_length=32, device="cpu")
        data = ContrastiveData(config, embedder.tokenizer)
        module = ContrastiveModule(embedder.module, embedder.tokenizer, config)
        return module, data.collator([data.dataset[RowKey(0, 0, row)] for row in range(8)])

    return make


def embed(module, layouts):
    return module.encoder(**module.tokenizer.pad(layouts))


def test_the_loss_is_that_of_the_embeddings(setting):
    module, batch = setting()
    logits = similarity_logits(embed(module, batch.queries), embed(module, batch.passages), 0.1)
    torch.testing.assert_close(module.loss(batch), distillation(logits, batch.teacher, batch.scored))


def test_distillation_off_ignores_scores(setting):
    module, batch = setting(loss={"temperature": 0.1, "distillation": "off"})
    logits = similarity_logits(embed(module, batch.queries), embed(module, batch.passages), 0.1)
    torch.testing.assert_close(module.loss(batch), info_nce(logits, 3))
    assert batch.scored.any()


def test_a_row_without_negatives_is_contrasted_with_the_batch(make_config, make_rows, write_rows, tmp_path):
    rows = make_rows(4, scores=True)
    for row in rows[1:3]:
        row["neg"], row["neg_scores"] = [], []
    path = write_rows(tmp_path / "rows.jsonl", rows)
    config = make_config(data__train=[str(path)], optim__batch_size=4)
    embedder = Embedder.from_pretrained(config.model.path, pooling=config.pooling, max_length=32, device="cpu")
    data = ContrastiveData(config, embedder.tokenizer)
    examples = [data.dataset[RowKey(0, 0, row)] for row in range(4)]
    batch = data.collator(examples)
    loss = ContrastiveModule(embedder.module, embedder.tokenizer, config).loss(batch)

    drawn = [draw_negatives(len(row["neg"]), seed=0, epoch=0, row=place, negatives=2) for place, row in enumerate(rows)]
    texts = [row["pos"] + [row["neg"][i] for i in chosen] for row, chosen in zip(rows, drawn, strict=True)]
    queries = torch.from_numpy(embedder.encode([row["query"] for row in rows], max_length=16))
    passages = torch.from_numpy(embedder.encode([text for group in texts for text in group]))
    assert len(passages) == 3 + 1 + 1 + 3
    logits, total = queries @ passages.T / 0.1, 0.0
    for row, first in enumerate((0, 3, 4, 5)):
        weights = torch.softmax(torch.tensor(examples[row].scores), dim=0)
        for i, weight in enumerate(weights):
            rest = torch.cat([logits[row, :first], logits[row, first + i :]])
            total += weight * (rest.logsumexp(dim=0) - logits[row, first + i])
    torch.testing.assert_close(loss, total / 4, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["cls", "mean", "mean_at_k", "latent_attention", "landmark"])
def test_the_gradient_reaches_every_parameter(setting, kind):
    module, batch = setting(pooling={"kind": kind})
    module.loss(batch).backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().sum() > 0, name


def test_learning_rate_curve():
    factor = warmup_then_decay(warmup_steps=4, steps=24)
    expected = {0: 0.25, 1: 0.5, 3: 1.0, 4: 1.0, 5: 0.95, 14: 0.5, 23: 0.05, 24: 0.0, 30: 0.0}
    assert {done: factor(done) for done in expected} == pytest.approx(expected)
    assert warmup_then_decay(0, 4)(0) == 1.0
    assert warmup_then_decay(4, 4)(4) == 0.0


def test_weight_decay_is_for_matrices_alone(setting):
    module, _ = setting(optim={"steps": 1, "batch_size": 2, "learning_rate": 1e-3, "weight_decay": 0.1})
    optimizer = make_optimizer(module, module.config.optim)
    for group in optimizer.param_groups:
        dimensions = {parameter.ndim for parameter in group["params"]}
        assert dimensions == ({2} if group["weight_decay"] == 0.1 else {1})
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(module.parameters()))
