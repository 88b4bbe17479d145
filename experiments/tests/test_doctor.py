"""What the doctor says of this machine. What it says of a cluster is tested on one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lmk_experiments.doctor.cluster import _time, look_at_cluster
from lmk_experiments.doctor.machine import _quota, file_system, look_at_machine
from lmk_experiments.profiles import Profile


def looked(root: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for finding in look_at_machine(root):
        found.setdefault(finding.what, []).append(str(finding))
    return found


def test_a_good_root_is_said_to_be_one(tmp_path: Path) -> None:
    found = looked(tmp_path / "runs")
    assert any("can be written" in line and line.startswith(("ok", "warn")) for line in found["root"])
    assert "ok    root: links and renames work there" in found["root"]
    assert found["locks"] == ["ok    locks: they hold there"]
    assert "torch" in found["packages"][0]
    assert list((tmp_path / "runs").iterdir()) == [], "nothing is left behind"


def test_a_root_that_cannot_be_written_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    [line] = looked(tmp_path / "file" / "runs")["root"]
    assert line.startswith("fail  root:")
    assert "LMK_ROOT" in line


def test_a_cache_in_a_small_home_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("lmk_experiments.doctor.machine.SMALL_GB", 1e9)
    monkeypatch.delenv("HF_HOME", raising=False)
    [line] = looked(tmp_path / "runs")["HF_HOME"]
    assert line.startswith("warn  HF_HOME:")
    assert "not set" in line
    monkeypatch.setenv("HF_HOME", "/elsewhere")
    [line] = looked(tmp_path / "runs")["HF_HOME"]
    assert line == "ok    HF_HOME: /elsewhere"


def test_a_password_in_the_store_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMK_STORE", "http://me:secret@tracking:5000")
    [line] = looked(tmp_path)["tracking"]
    assert "tracking:5000" in line
    assert "secret" not in line


def test_without_slurm_the_cluster_is_said_to_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    [finding] = look_at_cluster(Profile(profile="a"), tmp_path)
    assert finding.level == "fail"
    assert "sbatch" in finding.words


@pytest.mark.parametrize(
    ("told", "level"),
    [
        ({"max_hours": 48, "train": {"hours": 30}}, "fail"),
        ({"max_hours": 20, "train": {"hours": 30}}, "ok"),  # what takes longer goes on in further allocations
        ({"max_hours": 48, "train": {"hours": 10}}, "warn"),
        ({"analyze": {"hours": 30}}, "fail"),
        ({"rules": [{"when": {"row": "lmk-*"}, "hours": 30}]}, "fail"),
        ({"train": {"hours": 24}, "evaluate": {"hours": 24}}, "ok"),
    ],
)
def test_the_hours_that_jobs_would_ask_are_compared_with_the_partitions(told: dict[str, object], level: str) -> None:
    found = _time(Profile.model_validate({"profile": "a", **told}), "1-00:00:00")
    assert (found.level, found.what) == (level, "time")


def test_a_quota_that_does_not_answer_is_noted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    command = tmp_path / "quota"
    command.write_text("#!/bin/sh\nexec sleep 60\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("lmk_experiments.doctor.machine.QUOTA_SECONDS", 0.2)
    found = _quota()
    assert (found.level, found.what) == ("note", "quota")
    assert "0.2 seconds" in found.words


def test_the_kind_of_file_system_is_found() -> None:
    assert file_system(Path("/proc/self")) == "proc"


@pytest.mark.parametrize(
    ("kind", "level"),
    [("nfs4", "warn"), ("lustre", "warn"), ("fuse.sshfs", "warn"), ("fuseblk", "ok"), ("ext4", "ok")],
)
def test_sqlite_on_a_network_file_system_is_warned_of(
    kind: str, level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LMK_STORE", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    share = tmp_path / "big share"
    share.mkdir()
    mounts = tmp_path / "mounts"
    point = str(share).replace(" ", "\\040")
    mounts.write_text(f"/dev/sda1 / ext4 rw 0 0\nserver:/home {point} {kind} rw,hard 0 0\nproc /proc proc rw 0 0\n")
    monkeypatch.setattr("lmk_experiments.doctor.machine.MOUNTS", mounts)
    [line] = looked(share / "runs")["tracking"]
    assert line.startswith(level)
    assert str(share / "runs" / "mlflow.db") in line
    assert (f"is on {kind}, where its locks may not hold" in line) == (level == "warn")
    assert ("export LMK_STORE=/local/disk/mlflow.db" in line) == (level == "warn")
    # A local database is what the advice asks for.
    monkeypatch.setenv("LMK_STORE", str(tmp_path / "local.db"))
    assert looked(share / "runs")["tracking"][0].startswith("ok")
