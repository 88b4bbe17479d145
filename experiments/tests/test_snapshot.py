"""The copy of the code that jobs run with."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from lmk_experiments.submit.snapshot import SnapshotError, find_checkout, take_snapshot

IDENT = ("-c", "user.name=test", "-c", "user.email=test@localhost")


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "a checkout"
    for name, text in {
        "experiments/src/pkg/a.py": "a = 1\n",
        "packages/core/src/core/b.py": "b = 1\n",
        "experiments/grids/g.yaml": "grid: g\n",
        "experiments/profiles/p.yaml": "profile: p\n",
        "README.md": "hello\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, *IDENT, "commit", "-q", "-m", "first")
    return folder


def test_a_copy_holds_the_commit_and_stays(checkout: Path, tmp_path: Path) -> None:
    source = checkout / "experiments/src/pkg"
    copy = take_snapshot(tmp_path / "code", package=source)
    assert copy.folder is not None
    assert copy.commit == git(checkout, "rev-parse", "HEAD").strip()
    assert copy.path == [copy.folder / "experiments/src", copy.folder / "packages/core/src"]
    mark = json.loads((copy.folder / "SNAPSHOT.json").read_text())
    assert (mark["commit"], mark["dirty"], mark["checkout"]) == (copy.commit, False, str(checkout))
    (source / "a.py").write_text("a = 2\n")
    assert (copy.folder / "experiments/src/pkg/a.py").read_text() == "a = 1\n"
    git(checkout, "checkout", "-q", ".")
    before = (copy.folder / "SNAPSHOT.json").stat().st_mtime_ns
    assert take_snapshot(tmp_path / "code", package=source) == copy
    assert (copy.folder / "SNAPSHOT.json").stat().st_mtime_ns == before, "one commit is copied once"
    assert list((tmp_path / "code").iterdir()) == [copy.folder]


def test_changed_sources_are_refused_and_named(checkout: Path, tmp_path: Path) -> None:
    (checkout / "packages/core/src/core/b.py").write_text("b = 2\n")
    with pytest.raises(SnapshotError, match=r"not committed: packages/core/src/core/b\.py.*--dirty"):
        take_snapshot(tmp_path / "code", package=checkout / "experiments")
    assert not (tmp_path / "code").exists()


def test_changes_are_taken_along_and_kept_as_a_diff(checkout: Path, tmp_path: Path) -> None:
    file = checkout / "packages/core/src/core/b.py"
    file.write_text("b = 2\n")
    clean = git(checkout, "stash", "list")
    copy = take_snapshot(tmp_path / "code", dirty=True, package=checkout / "experiments")
    assert copy.folder is not None
    assert copy.dirty
    assert (copy.folder / "packages/core/src/core/b.py").read_text() == "b = 2\n"
    assert "+b = 2" in (copy.folder / "dirty.diff").read_text()
    assert file.read_text() == "b = 2\n", "the checkout stays as it is"
    assert git(checkout, "stash", "list") == clean
    file.write_text("b = 3\n")
    other = take_snapshot(tmp_path / "code", dirty=True, package=checkout / "experiments")
    assert other.folder != copy.folder
    git(checkout, "checkout", "-q", ".")
    assert take_snapshot(tmp_path / "code", dirty=True, package=checkout / "experiments").dirty is False


def test_new_sources_are_refused_and_named(checkout: Path, tmp_path: Path) -> None:
    (checkout / "experiments/src/pkg/new.py").write_text("new = 1\n")
    with pytest.raises(SnapshotError, match=r"not committed: experiments/src/pkg/new\.py\. .*--dirty"):
        take_snapshot(tmp_path / "code", package=checkout / "experiments")
    assert not (tmp_path / "code").exists()


def test_new_sources_are_taken_along(checkout: Path, tmp_path: Path) -> None:
    """Alone, and beside what is changed, staged, deleted; what git ignores is no source."""
    new = checkout / "experiments/src/pkg/a [new] one.py"
    new.write_text("new = 1\n")
    (checkout / ".gitignore").write_text("*.pyc\n")
    (new.parent / "a.pyc").write_text("")
    copy = take_snapshot(tmp_path / "code", dirty=True, package=checkout / "experiments")
    assert copy.folder is not None
    assert copy.dirty
    assert (copy.folder / "experiments/src/pkg" / new.name).read_text() == "new = 1\n"
    assert (copy.folder / "experiments/src/pkg/a.py").read_text() == "a = 1\n"
    assert not (copy.folder / "experiments/src/pkg/a.pyc").exists()
    assert "+new = 1" in (copy.folder / "dirty.diff").read_text()
    (new.parent / "staged.py").write_text("staged = 1\n")
    git(checkout, "add", "experiments/src/pkg/staged.py")
    (new.parent / "a.py").unlink()
    (checkout / "packages/core/src/core/b.py").write_text("b = 2\n")
    before = git(checkout, "status", "--porcelain")
    other = take_snapshot(tmp_path / "code", dirty=True, package=checkout / "experiments")
    assert other.folder is not None
    assert other.folder != copy.folder
    source = other.folder / "experiments/src/pkg"
    assert sorted(path.name for path in source.iterdir()) == [new.name, "staged.py"]
    assert (other.folder / "packages/core/src/core/b.py").read_text() == "b = 2\n"
    assert git(checkout, "status", "--porcelain") == before, "the checkout stays as it is"


def test_grids_profiles_and_new_files_elsewhere_are_no_dirt(checkout: Path, tmp_path: Path) -> None:
    (checkout / "experiments/grids/g.yaml").write_text("grid: other\n")
    (checkout / "experiments/profiles/p.yaml").write_text("profile: other\n")
    (checkout / "README.md").write_text("changed\n")
    (checkout / "experiments/grids/new.yaml").write_text("grid: new\n")
    copy = take_snapshot(tmp_path / "code", package=checkout / "experiments")
    assert copy.dirty is False
    assert copy.folder is not None
    assert (copy.folder / "experiments/grids/g.yaml").read_text() == "grid: g\n"


def test_an_installed_package_has_nothing_to_copy(tmp_path: Path, checkout: Path) -> None:
    assert find_checkout(tmp_path) is None
    ignored = checkout / ".venv" / "site-packages"
    ignored.mkdir(parents=True)
    (ignored / "a.py").touch()
    assert find_checkout(ignored) is None, "an environment inside a checkout is not the checkout"
    copy = take_snapshot(tmp_path / "code", package=ignored)
    assert (copy.folder, copy.commit, copy.setup_lines()) == (None, None, ())


def test_the_copy_is_first_on_the_path_of_a_job(checkout: Path, tmp_path: Path) -> None:
    copy = take_snapshot(tmp_path / "it's code", package=checkout / "experiments")
    [line] = copy.setup_lines()
    for before, after in (("", ""), ("export PYTHONPATH=/mine;", ":/mine")):
        shown = subprocess.run(
            ["sh", "-c", f"unset PYTHONPATH; {before} {line}; printf %s \"$PYTHONPATH\""],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        assert shown == f"{copy.folder}/experiments/src:{copy.folder}/packages/core/src{after}"
