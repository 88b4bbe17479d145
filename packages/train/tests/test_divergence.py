from __future__ import annotations

import pytest

from lmk_train.modules.divergence import WINDOW, DivergenceCheck


def first_alarm(check: DivergenceCheck, losses: list[float]) -> int | None:
    """The step, from 1, at which it is found."""
    return next((step for step, loss in enumerate(losses, start=1) if check.diverges(loss)), None)


def test_a_loss_that_climbs_above_its_beginning_is_found():
    losses = [4.0] * WINDOW + [1.0] * WINDOW + [7.0] * WINDOW
    # 26 of the last 50 at 7 make a mean of 4.12; 25 make exactly 4.
    assert first_alarm(DivergenceCheck(2.0), losses) == 2 * WINDOW + 26


def test_a_collapse_early_on_is_found():
    """It starts with random vectors near log(64), learns, and collapses to all vectors equal: log(64)."""
    losses = [4.2 - 0.05 * step for step in range(40)] + [4.16] * 200
    assert first_alarm(DivergenceCheck(1.2), losses) is not None


@pytest.mark.parametrize(
    "losses",
    [
        [4.0] * WINDOW + [0.01] * WINDOW + [0.5] * 200,  # 50 times its lowest, and still learnt a lot
        [4.0] * WINDOW + [3.0] * WINDOW + [5.0] * 200,  # above the first, but not by the factor
        [4.0] * WINDOW + ([1.0] * 9 + [20.0]) * 50,  # single hard batches
        [9.0] * (WINDOW - 1),
    ],
)
def test_what_is_no_divergence(losses):
    assert first_alarm(DivergenceCheck(2.0), losses) is None


def test_it_can_be_turned_off_and_on_again():
    losses = [4.0] * WINDOW + [1.0] * WINDOW + [9.0] * WINDOW
    off = DivergenceCheck(None)
    assert first_alarm(off, losses) is None
    on = DivergenceCheck(2.0)
    on.restore(off.state())
    assert on.diverges(9.0)


def test_it_goes_on_where_a_checkpoint_was():
    losses = [4.0] * WINDOW + [1.0] * WINDOW + [7.0] * WINDOW
    for stop in (10, WINDOW, 2 * WINDOW + 20):
        before = DivergenceCheck(2.0)
        assert first_alarm(before, losses[:stop]) is None
        after = DivergenceCheck(2.0)
        after.restore(before.state())
        assert first_alarm(after, losses[stop:]) == 2 * WINDOW + 26 - stop
