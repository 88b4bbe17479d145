"""How often a cell was started, how each start ended, and when a job gives up."""

from __future__ import annotations

import pytest
import torch

from lmk_experiments.errors import WorkFailed
from lmk_experiments.jobs import policy
from lmk_experiments.jobs.policy import NotAgain, check_again
from lmk_experiments.records.attempts import Attempt, attempts, failure_kind, gpu_hours
from lmk_train.ranks.failures import RankFailedError


def start(time: float, **fields: object) -> dict:
    return {"time": time, "event": "attempt", **fields}


def end(time: float, event: str, **fields: object) -> dict:
    return {"time": time, "event": event, **fields}


def test_events_become_starts() -> None:
    told = [
        start(100.0, job="7_0", gpus=8, host="n1"),
        end(200.0, "preempted", step=40, signal="SIGUSR2"),  # the training's own word; the end is the next line
        end(201.0, "stopped", cause="preempted", step=40, unit="step"),
        start(300.0, job="7_0", gpus=8, host="n2"),
        end(900.0, "lost", at=700.0, step=90, unit="step"),
        start(900.0, job="7_0", gpus=8, host="n3"),
        end(950.0, "rank_failed", reason="rank 1: x"),
        end(960.0, "failed", failure="out_of_gpu_memory", reason="OutOfMemoryError: x"),
        start(1000.0, job="8_0", gpus=4),
    ]
    found = attempts(told)
    assert [one.end for one in found] == ["preempted", "lost", "out_of_gpu_memory", "open"]
    assert [(one.started, one.ended) for one in found] == [(100, 201), (300, 700), (900, 960), (1000, None)]
    assert [one.step for one in found] == [40, 90, None, None]
    # 8 GPUs for 101, 400 and 60 seconds; 4 for the 500 that the last is known to have lived.
    assert gpu_hours(found, 1500.0) == pytest.approx((8 * 561 + 4 * 500) / 3600)


def test_records_of_before_are_read() -> None:
    told = [start(1.0), end(2.0, "failed", reason="stopped"), start(3.0), end(4.0, "failed", reason="ValueError: x")]
    assert [one.end for one in attempts(told)] == ["stopped", "error"]


def test_a_start_that_nothing_ended_lasts_until_it_was_last_heard_of() -> None:
    told = [
        start(0.0, gpus=1),
        end(3600.0, "task", name="x"),
        start(90_000.0, gpus=1),
        end(93_600.0, "preempted", step=5),
        start(200_000.0, gpus=1),
        end(203_600.0, "done"),
    ]
    found = attempts(told)
    assert [(one.end, one.ended) for one in found] == [("lost", 3600), ("preempted", 93_600), ("done", 203_600)]
    assert gpu_hours(found, 900_000.0) == 3.0


def test_gpus_are_those_of_the_job_else_those_of_the_processes() -> None:
    told = [
        *(start(0.0), end(1.0, "start", device="NVIDIA H100", processes=2, torch="2.13"), end(3600.0, "done")),
        *(start(0.0, gpus=8), end(1.0, "start", device="NVIDIA H100", processes=4), end(3600.0, "done")),
        *(start(0.0), end(1.0, "start", device="cpu", processes=4), end(3600.0, "done")),
    ]
    found = attempts(told)
    assert [one.gpus for one in found] == [2, 8, 0]
    assert (found[0].device, found[0].torch) == ("NVIDIA H100", "2.13")


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except BaseException as caught:  # noqa: BLE001
        return caught


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"), "out_of_gpu_memory"),
        (RankFailedError("rank 3 of 8 on n2: OutOfMemoryError: CUDA out of memory"), "out_of_gpu_memory"),
        (MemoryError(), "out_of_memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried 8 bytes"), "out_of_memory"),
        (OSError(12, "Cannot allocate memory"), "out_of_memory"),
        (WorkFailed("1 of 3 evaluations failed: 0123: MemoryError"), "out_of_memory"),
        (raised(ValueError("no model"), MemoryError()), "out_of_memory"),
        (OSError(28, "No space left on device"), "error"),
        (ValueError("the loss is nan"), "error"),
    ],
)
def test_memory_that_ran_out_is_told_apart(error: BaseException, kind: str) -> None:
    assert failure_kind(error) == kind


def own(*ends: tuple[str, int | None], job: str = "7_0", unit: str = "step") -> list[Attempt]:
    return [Attempt(0.0, 1.0, end, job=job, step=step, unit=unit) for end, step in ends]  # ty: ignore[invalid-argument-type]


def test_pushed_out_it_goes_on_without_limit() -> None:
    check_again(own(*[("preempted", 5)] * 50), "7_0")


def test_out_of_time_it_goes_on_while_it_gains_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(policy.TIMEOUTS_VARIABLE, "20")
    check_again(own(("time", 10), ("time", 20), ("time", 30)), "7_0")
    check_again(own(("time", 10), ("preempted", 10)), "7_0")
    with pytest.raises(NotAgain, match="its time was up twice at step 10"):
        check_again(own(("time", 10), ("time", 10)), "7_0")
    check_again(own(("time", 900), ("time", 100), unit="text"), "7_0")  # texts are counted anew by each start
    monkeypatch.setenv(policy.TIMEOUTS_VARIABLE, "2")
    check_again(own(("time", 10), ("time", 20)), "7_0")
    with pytest.raises(NotAgain, match="its time was up 3 times"):
        check_again(own(("time", 10), ("time", 20), ("time", 30)), "7_0")
    check_again(own(("time", 10), ("time", 20), ("time", 30)), "9_0")  # a person has submitted it again


def test_without_a_word_and_a_step_it_goes_on_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(policy, "history", lambda job: told)
    check_again(own(("lost", 5)), "7_0")
    check_again(own(("lost", 5), ("lost", 9)), "7_0")
    check_again(own(("lost", 5), ("preempted", 5), ("lost", 5)), "7_0")
    with pytest.raises(NotAgain, match="ended without a word 2 times in a row"):
        check_again(own(("lost", 5), ("lost", 5)), "7_0")
    told[:] = ["PREEMPTED", "PREEMPTED", "RUNNING"]  # killed at once, and not by its own fault
    check_again(own(("lost", 5), ("lost", 5)), "7_0")
    told[:] = ["NODE_FAIL", "NODE_FAIL", "RUNNING"]
    with pytest.raises(NotAgain):
        check_again(own(("lost", 5), ("lost", 5)), "7_0")
