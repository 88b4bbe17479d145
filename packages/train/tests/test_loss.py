from __future__ import annotations

import math

import pytest
import torch

from lmk_train.loss import distillation, info_nce, similarity_logits

QUERIES, GROUP = 5, 4


def unit(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.nn.functional.normalize(torch.randn(*shape, generator=generator, dtype=torch.float64), dim=-1)


@pytest.fixture
def logits() -> torch.Tensor:
    return (unit(QUERIES, 8) @ unit(QUERIES * GROUP, 8, seed=1).T / 0.1).requires_grad_()


@pytest.fixture
def teacher() -> torch.Tensor:
    return torch.randn(QUERIES, GROUP, generator=torch.Generator().manual_seed(2), dtype=torch.float64) * 2


def naive_info_nce(logits: torch.Tensor) -> torch.Tensor:
    total = torch.zeros((), dtype=logits.dtype)
    for i, row in enumerate(logits):
        total = total - (row[i * GROUP] - torch.log(torch.exp(row).sum()))
    return total / len(logits)


def naive_distillation(logits: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    """The loop of the paper's runs: own passage i is the target, own passages before it are masked."""
    weights = torch.softmax(teacher, dim=1)
    total = torch.zeros((), dtype=logits.dtype)
    for i in range(GROUP):
        targets = torch.arange(QUERIES) * GROUP + i
        masked = logits.clone()
        for q in range(QUERIES):
            masked[q, q * GROUP : q * GROUP + i] = torch.finfo(logits.dtype).min
        entropy = torch.nn.functional.cross_entropy(masked, targets, reduction="none")
        total = total + (weights[:, i] * entropy).mean()
    return total


def gradient(loss: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(loss, logits)[0]


def test_info_nce_equals_the_loop(logits):
    ours, theirs = info_nce(logits, GROUP), naive_info_nce(logits)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(gradient(ours, logits), gradient(theirs, logits))


def test_info_nce_by_hand():
    logits = torch.log(torch.tensor([[1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 6.0, 2.0]]))
    assert info_nce(logits, 2).item() == pytest.approx((math.log(10) + math.log(10 / 6)) / 2)


def test_distillation_equals_the_loop(logits, teacher):
    everyone = torch.ones(QUERIES, dtype=torch.bool)
    ours, theirs = distillation(logits, teacher, everyone), naive_distillation(logits, teacher)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(gradient(ours, logits), gradient(theirs, logits))


def test_the_teacher_temperature_divides_its_scores(logits, teacher):
    everyone = torch.ones(QUERIES, dtype=torch.bool)
    torch.testing.assert_close(
        distillation(logits, teacher, everyone, teacher_temperature=3.0), naive_distillation(logits, teacher / 3.0)
    )


def test_rows_mix(logits, teacher):
    """Each row is either distilled or contrasted, as it is when all rows are of its sort."""
    scored = torch.tensor([True, False, True, False, False])
    ours = gradient(distillation(logits, teacher, scored), logits)
    distilled, contrasted = (
        gradient(naive_distillation(logits, teacher), logits),
        gradient(naive_info_nce(logits), logits),
    )
    torch.testing.assert_close(ours, torch.where(scored[:, None], distilled, contrasted))


def test_without_scores_distillation_is_info_nce_whatever_the_teacher_holds(logits):
    nobody = torch.zeros(QUERIES, dtype=torch.bool)
    noise = torch.full((QUERIES, GROUP), float("nan"), dtype=torch.float64)
    torch.testing.assert_close(distillation(logits, noise, nobody), info_nce(logits, GROUP))


def test_one_query_alone_has_a_finite_gradient(teacher):
    logits = torch.tensor([[1.0, 2.0, 0.0, -1.0]], dtype=torch.float64, requires_grad=True)
    loss = distillation(logits, teacher[:1], torch.tensor([True]))
    weights = torch.softmax(teacher[0], dim=0)
    by_hand = sum(weights[i] * (torch.logsumexp(logits[0, i:], 0) - logits[0, i]) for i in range(4))
    torch.testing.assert_close(loss, by_hand)
    assert torch.isfinite(gradient(loss, logits)).all()


def test_extreme_logits_stay_finite():
    """Equal texts at temperature 0.02 give logits of 50; a teacher on a scale of 100 is one-hot."""
    logits = torch.full((2, 4), -50.0)
    logits[0, 0] = logits[1, 2] = 50.0
    logits.requires_grad_()
    loss = distillation(logits, torch.tensor([[98.2, 12.0], [3.0, 97.0]]), torch.tensor([True, True]))
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient(loss, logits)).all()


def test_an_offset_picks_the_columns_of_this_process(logits, teacher):
    """Rows 2 to 4 alone, with all passages in the columns, are a part of the whole."""
    scored = torch.tensor([True, False, True, True, False])
    whole = distillation(logits, teacher, scored) * QUERIES
    parts = distillation(logits[:2], teacher[:2], scored[:2]) * 2
    parts = parts + distillation(logits[2:], teacher[2:], scored[2:], offset=2) * 3
    torch.testing.assert_close(parts, whole)
    both = info_nce(logits[:2], GROUP) * 2 + info_nce(logits[2:], GROUP, offset=2) * 3
    torch.testing.assert_close(both, info_nce(logits, GROUP) * QUERIES)


def test_similarities_are_float32_under_autocast():
    queries, passages = unit(3, 16).float(), unit(6, 16, seed=3).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = similarity_logits(queries, passages, 0.02)
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits, queries @ passages.T / 0.02)


SIZES = [4, 1, 3, 4, 1]
"""Passages of each query where some have fewer negatives, or none."""


@pytest.fixture
def ragged() -> torch.Tensor:
    return (unit(QUERIES, 8) @ unit(sum(SIZES), 8, seed=1).T / 0.1).requires_grad_()


def naive_ragged(logits: torch.Tensor, teacher: torch.Tensor, scored: list[bool]) -> torch.Tensor:
    """Query by query, passage by passage, over the columns that there are."""
    total = torch.zeros((), dtype=logits.dtype)
    for q, size in enumerate(SIZES):
        first = sum(SIZES[:q])
        weights = torch.softmax(teacher[q, :size], dim=0) if scored[q] else torch.eye(size)[0]
        for i in range(size):
            left = [column for column in range(logits.shape[1]) if not first <= column < first + i]
            total = total - weights[i] * (logits[q, first + i] - torch.logsumexp(logits[q, left], dim=0))
    return total / len(logits)


def test_info_nce_over_groups_of_different_sizes(ragged):
    ours = info_nce(ragged, torch.tensor(SIZES))
    theirs = naive_ragged(ragged, torch.zeros(QUERIES, GROUP), [False] * QUERIES)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(gradient(ours, ragged), gradient(theirs, ragged))


@pytest.mark.parametrize("scored", [[True] * 5, [True, True, False, True, False], [False] * 5])
def test_distillation_over_groups_of_different_sizes(ragged, teacher, scored):
    slots = torch.arange(GROUP) < torch.tensor(SIZES)[:, None]
    noise = teacher.masked_fill(~slots, float("nan"))
    ours = distillation(ragged, noise, torch.tensor(scored), sizes=torch.tensor(SIZES))
    theirs = naive_ragged(ragged, teacher, scored)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(gradient(ours, ragged), gradient(theirs, ragged))


def test_an_offset_counts_groups_of_different_sizes(ragged, teacher):
    sizes, scored = torch.tensor(SIZES), torch.tensor([True, False, True, True, False])
    whole = distillation(ragged, teacher, scored, sizes=sizes) * QUERIES
    parts = distillation(ragged[:2], teacher[:2], scored[:2], sizes=sizes) * 2
    parts = parts + distillation(ragged[2:], teacher[2:], scored[2:], offset=2, sizes=sizes) * 3
    torch.testing.assert_close(parts, whole)
    both = info_nce(ragged[:2], sizes) * 2 + info_nce(ragged[2:], sizes, offset=2) * 3
    torch.testing.assert_close(both, info_nce(ragged, sizes) * QUERIES)


def test_equal_sizes_change_no_bit(logits, teacher):
    scored = torch.tensor([True, False, True, False, True])
    sizes = torch.full((QUERIES,), GROUP)
    assert torch.equal(info_nce(logits, sizes), info_nce(logits, GROUP))
    plain, sized = distillation(logits, teacher, scored), distillation(logits, teacher, scored, sizes=sizes)
    assert torch.equal(sized, plain)
    assert torch.equal(gradient(sized, logits), gradient(plain, logits))


def test_one_query_with_its_positive_alone_has_no_loss():
    logits = torch.tensor([[3.0]], requires_grad=True)
    loss = distillation(logits, torch.tensor([[2.0]]), torch.tensor([True]), sizes=torch.tensor([1]))
    assert loss.item() == 0.0
    assert gradient(loss, logits).tolist() == [[0.0]]
    assert info_nce(logits, torch.tensor([1])).item() == 0.0
