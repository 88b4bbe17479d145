"""A training that is told to stop, in this process: what is saved, and who gets the signal then."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from lmk_core import Embedder
from lmk_train import train
from lmk_train.callbacks import checkpoint_files
from lmk_train.callbacks.checkpoint_files import read_checkpoint
from lmk_train.ranks.signals import Preempted


def weights(model: Path) -> dict[str, torch.Tensor]:
    return Embedder.from_pretrained(model, device="cpu").module.state_dict()


class Signalled:
    """A recorder whose process is sent signals where it hears of something: of an event, a step's loss or a metric."""

    def __init__(self, recorder: Any, **at: list[signal.Signals]) -> None:
        self.recorder, self.at = recorder, at

    def event(self, kind: str, **fields: Any) -> None:
        self.recorder.event(kind, **fields)
        self._raise(kind)

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        self.recorder.metrics(values, step)
        self._raise(f"{'step' if 'train/loss' in values else 'validation'}_{step}")

    def progress(self, *_: Any) -> None:
        pass

    def _raise(self, name: str) -> None:
        for number in self.at.pop(name, []):
            signal.raise_signal(number)


@pytest.fixture
def handled() -> Iterator[list[int]]:
    """Handlers as submitit has them: SIGUSR2 queues the job again and exits, SIGTERM is passed over."""
    calls: list[int] = []

    def requeue(number: int, _: Any) -> None:
        calls.append(number)
        sys.exit(-1)

    before = {signal.SIGUSR2: requeue, signal.SIGTERM: lambda number, _: calls.append(number)}
    before = {number: signal.signal(number, handler) for number, handler in before.items()}
    yield calls
    for number, handler in before.items():
        signal.signal(number, handler)


def events(recorder: Any, kind: str) -> list[dict[str, Any]]:
    return [event for event in recorder.events if event["event"] == kind]


def saved(folder: Path) -> int:
    return read_checkpoint(folder / "checkpoints/last.ckpt")["global_step"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR2])
def test_without_a_handler_it_saves_and_ends_with_the_signals_code(number, make_config, tmp_path, recorder):
    """Wherever the signal comes in a step, the resumed training is the undisturbed one."""
    whole = train(make_config(), tmp_path / "whole", recorder)
    expected = recorder.curve("train/loss")
    recorder.values.clear()
    before = signal.getsignal(number)
    with pytest.raises(Preempted) as caught:
        train(make_config(), tmp_path / "run", Signalled(recorder, step_2=[number]))
    assert caught.value.code == 128 + number
    assert signal.getsignal(number) == before
    [told] = events(recorder, "preempted")
    assert (told["step"], told["signal"], saved(tmp_path / "run")) == (2, number.name, 2)
    assert 0 <= told["seconds"] < 60
    resumed = train(make_config(), tmp_path / "run", recorder)
    assert recorder.curve("train/loss") == expected
    ours, theirs = weights(resumed), weights(whole)
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


def test_the_handler_of_before_is_called_once_behind_the_checkpoint(make_config, tmp_path, recorder, handled):
    """Though more signals come while it saves, and while it is called."""
    more = [signal.SIGUSR2, signal.SIGTERM]
    with pytest.raises(SystemExit) as caught:
        train(make_config(), tmp_path, Signalled(recorder, step_3=[signal.SIGUSR2], preempted=more))
    assert caught.value.code == -1
    assert handled == [signal.SIGUSR2]
    assert saved(tmp_path) == 3
    assert list(recorder.curve("train/loss")) == [1, 2, 3]


def test_a_request_to_queue_again_comes_before_an_order_to_end(make_config, tmp_path, recorder, handled):
    with pytest.raises(SystemExit):
        train(make_config(), tmp_path, Signalled(recorder, step_3=[signal.SIGTERM, signal.SIGUSR2]))
    assert handled == [signal.SIGUSR2]


def test_a_handler_that_returns_lets_it_go_on(make_config, tmp_path, recorder, handled):
    whole = train(make_config(), tmp_path / "whole")
    term = [signal.SIGTERM]
    model = train(make_config(), tmp_path / "run", Signalled(recorder, step_2=[*term, *term], step_4=term))
    assert handled == [signal.SIGTERM] * 2
    assert [event["step"] for event in events(recorder, "preempted")] == [2, 4]
    ours, theirs = weights(model), weights(whole)
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


def test_before_the_first_step_nothing_is_waited_for(make_config, tmp_path, recorder, handled):
    """A first tokenization can take an hour; what is to save is the checkpoint that there is."""
    with pytest.raises(SystemExit):
        train(make_config(), tmp_path, Signalled(recorder, start=[signal.SIGUSR2]))
    assert recorder.kinds() == ["start", "preempted"]
    assert (recorder.events[-1]["step"], recorder.events[-1]["seconds"]) == (0, 0.0)
    assert not recorder.values
    with pytest.raises(SystemExit):
        train(make_config(), tmp_path, Signalled(recorder, step_3=[signal.SIGUSR2]))
    with pytest.raises(SystemExit):
        train(make_config(), tmp_path, Signalled(recorder, resumed=[signal.SIGUSR2]))
    assert handled == [signal.SIGUSR2] * 3
    assert [event["step"] for event in events(recorder, "preempted")][:2] == [0, 3]
    assert saved(tmp_path) == 3


@pytest.mark.parametrize("moment", ["step_6", "saving"])
def test_behind_the_last_step_the_model_is_saved(moment, make_config, tmp_path, recorder, handled, monkeypatch):
    original = Embedder.save_pretrained

    def save(self: Embedder, *args: Any, **named: Any) -> None:
        if moment == "saving":
            signal.raise_signal(signal.SIGUSR2)
        original(self, *args, **named)

    monkeypatch.setattr(Embedder, "save_pretrained", save)
    train(make_config(), tmp_path, Signalled(recorder, **{moment: [signal.SIGUSR2]}))
    assert recorder.kinds() == ["start", "finished"]
    assert (tmp_path / "TRAINED.json").exists()
    assert not handled


def test_a_validation_is_finished_first(make_config, tmp_path, recorder, rows_file, handled, monkeypatch):
    encode = Embedder.encode

    def signalled(self: Embedder, *args: Any, **named: Any) -> Any:
        signal.raise_signal(signal.SIGUSR2)
        return encode(self, *args, **named)

    config = make_config(data__validation=str(rows_file), runtime__validate_every=2)
    with monkeypatch.context() as patch:
        patch.setattr(Embedder, "encode", signalled)
        with pytest.raises(SystemExit):
            train(config, tmp_path, recorder)
    assert saved(tmp_path) == 2
    assert list(recorder.curve("validation/ndcg_at_10")) == [2]
    train(config, tmp_path, recorder)
    assert list(recorder.curve("validation/ndcg_at_10")) == [2, 4, 6]


def test_a_signal_that_is_ignored_stays_so(make_config, tmp_path, recorder):
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        train(make_config(), tmp_path, Signalled(recorder, step_2=[signal.SIGTERM]))
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
    assert recorder.kinds() == ["start", "finished"]


def test_a_full_disk_does_not_keep_the_job(make_config, tmp_path, recorder, handled, monkeypatch):
    """It goes on from the checkpoint before; where there is no room, the next one of the next start says so."""
    write: Callable[..., None] = checkpoint_files._write

    def full(checkpoint: dict[str, Any], path: Path) -> None:
        write(checkpoint, path)
        if checkpoint["global_step"] > 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint_files, "_write", full)
    config = make_config(runtime__checkpoint_every=2)
    with pytest.raises(SystemExit):
        train(config, tmp_path, Signalled(recorder, step_3=[signal.SIGUSR2]))
    assert handled == [signal.SIGUSR2]
    [told] = events(recorder, "preempted")
    assert told["step"] == 2
    assert "could not be written (No space left on device)" in told["error"]
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["last.ckpt"]
