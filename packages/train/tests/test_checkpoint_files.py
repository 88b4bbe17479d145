"""Checkpoints on disks that are full, and checkpoints that are not what was written."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from stopping import Stopped

from lmk_core import Embedder
from lmk_train import train
from lmk_train.callbacks import CheckpointNotWrittenError
from lmk_train.callbacks.checkpoint_files import CheckpointFiles, DamagedCheckpointError, read_checkpoint


def weights(model: Path) -> dict[str, torch.Tensor]:
    return Embedder.from_pretrained(model, device="cpu").module.state_dict()


def same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(value, right[name]) for name, value in left.items())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


@pytest.fixture
def whole(make_config, tmp_path) -> dict[str, torch.Tensor]:
    return weights(train(make_config(), tmp_path / "whole"))


def cut(content: bytearray, _: Path) -> bytearray:
    return content[: len(content) // 2]


def empty(_content: bytearray, _: Path) -> bytearray:
    return bytearray()


def flip_a_bit_of_a_tensor(content: bytearray, path: Path) -> bytearray:
    """Torch reads it without a word."""
    with zipfile.ZipFile(path) as archive:
        tensors = [entry for entry in archive.infolist() if "/data/" in entry.filename]
        largest = max(tensors, key=lambda entry: entry.file_size)
    at = content.index(read_record(path, largest)) + largest.file_size // 2
    content[at] ^= 1
    return content


def read_record(path: Path, entry: zipfile.ZipInfo) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return archive.read(entry)


@pytest.mark.parametrize("damage", [cut, empty, flip_a_bit_of_a_tensor])
def test_a_damaged_checkpoint_is_replaced_by_the_one_before(
    damage, make_config, tmp_path, recorder, stop_after, whole, monkeypatch
):
    folder = tmp_path / "run"
    config = make_config(runtime__checkpoint_every=2)
    stop_after(4)
    with pytest.raises(Stopped):
        train(config, folder)
    last = folder / "checkpoints/last.ckpt"
    assert names(folder) == ["last.ckpt", "previous.ckpt"]
    damaged = bytes(damage(bytearray(last.read_bytes()), last))
    last.write_bytes(damaged)
    if damage is flip_a_bit_of_a_tensor:
        torch.load(last, weights_only=True)
    stop_after(5)
    with pytest.raises(Stopped):
        train(config, folder, recorder)
    assert names(folder) == ["last.ckpt", "last.ckpt.unreadable", "previous.ckpt"]
    assert (folder / "checkpoints/last.ckpt.unreadable").read_bytes() == damaged
    _, told, resumed = recorder.events
    assert (told["event"], told["path"]) == ("checkpoint_unreadable", str(last))
    assert told["error"]
    assert resumed == {"event": "resumed", "step": 2, "file": "previous.ckpt"}
    stop_after(0)
    assert same(weights(train(config, folder)), whole)
    assert not (folder / "checkpoints").exists()


def test_no_flipped_bit_is_trained_on(tmp_path):
    """Anywhere in the file: it is found, or changes nothing that is read."""
    draw = random.Random(0)
    path = tmp_path / "last.ckpt"
    tensors = {"a": torch.randn(40, 30), "b": torch.arange(7)}
    CheckpointFiles().save_checkpoint({"state": tensors, "global_step": 3, "name": "ü", "x": [1.5, None]}, path)
    content = path.read_bytes()
    found = 0
    for _ in range(150):
        flipped = bytearray(content)
        flipped[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(flipped)
        try:
            read = read_checkpoint(path)
        except DamagedCheckpointError:
            found += 1
            continue
        assert all(torch.equal(read["state"][name], tensors[name]) for name in tensors)
        assert (read["global_step"], read["name"], read["x"]) == (3, "ü", [1.5, None])
    assert found > 110


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of its own, that is too small for two checkpoints."""
    if os.geteuid():
        pytest.skip("only root can mount a small file system")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this root may not mount a file system: a container without the right to")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_is_an_error_and_leaves_the_last_checkpoint_whole(
    make_config, tmp_path, recorder, small_disk, whole
):
    config = make_config(runtime__checkpoint_every=2)
    with pytest.raises(CheckpointNotWrittenError) as caught:
        train(config, small_disk / "run", recorder)
    message = str(caught.value)
    last = small_disk / "run/checkpoints/last.ckpt"
    assert message.startswith(
        f"{last}: this checkpoint could not be written (No space left on device), with 0.000 GB free"
    )
    assert "is whole. Make room" in message
    assert names(small_disk / "run") == ["last.ckpt"]
    assert read_checkpoint(last)["global_step"] == 2
    subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
    assert same(weights(train(config, small_disk / "run", recorder)), whole)
    assert {"event": "resumed", "step": 2} in recorder.events


def test_a_disk_that_takes_no_more_keeps_both_checkpoints(tmp_path):
    """A quota: for no file to grow further, whoever asks."""
    path = tmp_path / "checkpoints/last.ckpt"
    files = CheckpointFiles()
    for step in (1, 2):
        files.save_checkpoint({"global_step": step, "state": torch.zeros(1000)}, path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        files.save_checkpoint({"global_step": 3, "state": torch.zeros(100_000)}, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert f"{path}: this checkpoint could not be written (File too large)" in files.failed
    assert names(tmp_path) == ["last.ckpt", "previous.ckpt"]
    steps = [read_checkpoint(path.with_name(name))["global_step"] for name in ("previous.ckpt", "last.ckpt")]
    assert steps == [1, 2]
    files.save_checkpoint({"global_step": 3}, path)
    assert not files.failed
    assert read_checkpoint(path)["global_step"] == 3
