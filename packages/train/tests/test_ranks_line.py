"""Who a process is in an srun step, and how the tasks of one talk."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Generator
from dataclasses import replace

import pytest

from lmk_train.data.errors import DataError
from lmk_train.modules.finite import NonFiniteError
from lmk_train.ranks import FirstEnd, OtherEnd, RankFailedError, RankFailure, joined_step, slurm_place
from lmk_train.ranks.failures import cause_of, describe, packed, unpacked
from lmk_train.ranks.place import Place, SlurmPlace
from lmk_train.training import _cause_elsewhere

STEP = {
    "SLURM_STEP_NUM_TASKS": "6",
    "SLURM_STEP_NUM_NODES": "3",
    "SLURM_STEP_TASKS_PER_NODE": "2(x3)",
    "SLURM_STEP_NODELIST": "gpu[012-013,020]",
    "SLURM_JOB_ID": "1017",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
}


def test_a_task_of_a_step_is_a_rank():
    place = slurm_place(STEP)
    assert place is not None
    assert (place.rank, place.size, place.local_rank, place.node, place.nodes, place.devices) == (3, 6, 1, 1, 3, 2)
    assert place.address == "gpu012"
    assert place.step == "1017.0.0"
    assert slurm_place({**STEP, "SLURM_RESTART_COUNT": "2"}).step == "1017.0.2"
    neighbour = slurm_place({**STEP, "SLURM_JOB_ID": "1018"})
    assert not set(place.ports) & set(neighbour.ports), "the next job may be on the same node"


def test_what_is_no_step_of_several_tasks_is_no_rank():
    batch_script = {"SLURM_JOB_ID": "17", "SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_NNODES": "2"}
    assert slurm_place({}) is slurm_place(batch_script) is None
    assert slurm_place({**STEP, "SLURM_STEP_NUM_TASKS": "1"}) is None
    with pytest.raises(ValueError, match=r"2\(x2\),1 tasks on its 3 nodes; valid: the same number on each"):
        slurm_place({**STEP, "SLURM_STEP_NUM_TASKS": "5", "SLURM_STEP_TASKS_PER_NODE": "2(x2),1"})


def places(size: int, ports: int = 2) -> list[SlurmPlace]:
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("", 0))) for _ in range(ports)]
        free = tuple(one.getsockname()[1] for one in taken)
    return [SlurmPlace(rank, size, rank, 0, 1, step="7.0.0", address="127.0.0.1", ports=free) for rank in range(size)]


@pytest.fixture
def line() -> Generator[tuple[FirstEnd, list[OtherEnd]]]:
    first, *rest = places(3)
    end = FirstEnd(first)
    others = [OtherEnd(place, 10) for place in rest]
    yield end, others
    for other in others:
        other.close()
    end.close()


def test_words_come_in_order_also_to_those_who_come_late():
    first, second, third = places(3)
    end = FirstEnd(first)
    early = OtherEnd(second, 10)
    end.tell(train={"seed": 1})
    end.tell(store=29500)
    late = OtherEnd(third, 10)
    for other in (early, late):
        assert [other.told(10), other.told(10)] == [{"train": {"seed": 1}}, {"store": 29500}]
    assert end.everyone(10) == [socket.gethostname()] * 3
    with pytest.raises(RankFailedError, match="rank 1 of 3: the first rank said no more"):
        early.told(0.01)
    for one in (early, late, end):
        one.close()


def test_the_first_rank_learns_who_failed_and_why(line):
    end, (second, third) = line
    heard: list[RankFailure] = []
    end.listen(heard.append)
    end.everyone(10)
    third.report(RuntimeError("[gloo/transport/tcp/pair.cc:534] Connection closed by peer"))
    second.report(DataError("rows.jsonl", 17, "no 'query'"))
    second.close()
    failure = end.failure(10)
    assert (failure.rank, failure.host, failure.reason) == (
        1,
        socket.gethostname(),
        "DataError: rows.jsonl:17: no 'query'",
    )
    assert str(failure).startswith("rank 1 of 3 on ")
    assert [failure.rank for failure in heard] == [1], "an echo is no news"
    with pytest.raises(RankFailedError, match="no 'query'"):
        end.everyone(10)


def test_a_failure_from_before_anybody_listened_is_told_too(line):
    end, (second, third) = line
    heard: list[RankFailure] = []
    second.report(ValueError("early"))
    third.report(RuntimeError("[gloo/transport/tcp/pair.cc:534] Connection closed by peer"))
    assert end.failure(10).reason == "ValueError: early"
    end.listen(heard.append)
    assert [failure.reason for failure in heard] == ["ValueError: early"]


def test_what_all_ranks_raise_together_stays_the_first_ones_own(line):
    """A caller needs the type: memory, a loss that is not finite, faulty data."""
    end, (second, third) = line
    end.everyone(10)
    second.report(NonFiniteError("the loss is nan at step 3 of 9"))
    own = NonFiniteError("the loss is nan at step 3 of 9")
    assert end.failure(10) is not None
    assert _cause_elsewhere(own, end) is None
    third.report(RuntimeError("Connection closed by peer"))
    cause = _cause_elsewhere(RuntimeError("Connection closed by peer"), end)
    assert cause is not None
    assert (cause.rank, cause.kind) == (1, "NonFiniteError")


def test_a_rank_that_vanishes_is_missed_and_one_that_leaves_is_not(line):
    end, (second, third) = line
    end.everyone(10)
    second.close()
    third._peer.connection.shutdown(socket.SHUT_RDWR)  # what the kernel does for a killed process
    failure = end.failure(10)
    assert (failure.rank, failure.echo) == (2, False)
    assert "without a word" in failure.reason


def test_who_never_comes_is_named():
    first, second, _ = places(3)
    end = FirstEnd(first)
    other = OtherEnd(second, 10)
    with pytest.raises(RankFailedError, match=r"of 3 ranks, 2 did not come within 0\.1 s"):
        end.everyone(0.1)
    other.close()
    end.close()


def test_another_steps_line_and_taken_ports_are_passed_over():
    first, second = places(2, ports=3)
    stranger = FirstEnd(replace(first, step="8.0.0"))  # takes the first port
    with socket.create_server(("", first.ports[1])) as silent:
        threading.Thread(target=lambda: silent.accept()[0].close(), daemon=True).start()
        end = FirstEnd(first)
        assert end._socket.getsockname()[1] == first.ports[2]
        other = OtherEnd(second, 20)
        end.tell(ours=True)
        assert other.told(10) == {"ours": True}
        assert len(stranger.hosts) == 1
        other.close()
    with pytest.raises(OSError, match="none of the ports"):
        FirstEnd(replace(first, ports=first.ports[:1]))
    with pytest.raises(RankFailedError, match=r"rank 1 of 2: the first rank was not found on 127.0.0.1"):
        OtherEnd(replace(second, step="9.0.0"), 0.5)
    stranger.close()
    end.close()


def test_an_error_that_leaves_a_joined_step_is_reported(monkeypatch):
    first, second = places(2)
    monkeypatch.setattr("lmk_train.ranks.line.slurm_place", lambda: second)
    end = FirstEnd(first)
    with pytest.raises(KeyError), joined_step():
        raise KeyError("pos")
    assert end.failure(10).reason == "KeyError: 'pos'"
    end.close()
    monkeypatch.setattr("lmk_train.ranks.line.slurm_place", lambda: None)
    with joined_step() as alone:
        assert alone is None


def test_the_cause_is_the_first_that_is_no_echo():
    lost = RankFailure(0, 3, "n1", "RuntimeError: Connection closed by peer", echo=True, at=1.0)
    killed = RankFailure(2, 3, "n2", "it was ended by SIGKILL", at=3.0)
    faulty = RankFailure(1, 3, "n1", "ValueError: nan", at=2.0)
    assert cause_of([lost, killed, faulty]) is faulty
    assert cause_of([lost]) is lost
    assert describe(ValueError("Connection closed by peer"))["echo"] is False
    json.dumps(faulty.to_json())


class Picky(Exception):
    def __init__(self, place: Place, problem: str) -> None:
        super().__init__(f"{place}: {problem}")
        self.problem = problem


def test_exceptions_come_over_whole_or_not_at_all():
    error = unpacked(packed(Picky(Place(0, 2, 0), "odd")))
    assert isinstance(error, Picky)
    assert (str(error), error.problem) == ("rank 0 of 2: odd", "odd")
    assert unpacked(packed(FileNotFoundError(2, "No such file", "x"))).filename == "x"

    class Local(Exception):
        pass

    assert packed(Local("cannot be imported")) == ""
    assert unpacked("bm9uc2Vuc2U=") is None
