"""References to generated data, the manifest, and fingerprints of content."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lmk_experiments.builders import BUILDERS, BuilderError, build, fingerprint, is_builtin_reference, locate
from lmk_experiments.builders.fingerprints import content_fingerprint

NAME = "quickstart-tiny"


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    build(NAME, root)
    return root


@pytest.fixture(scope="module")
def built(root) -> Path:
    return root / "built" / NAME


def test_manifest(root, built):
    manifest = json.loads((built / "BUILT.json").read_text())
    assert manifest["schema"] == 1
    assert manifest["name"] == NAME
    assert manifest["packages"] == {"python": manifest["python"]}
    assert manifest["missing"] == []
    for reference in ("train.jsonl", "model", "eval/long-512", "model/config.json"):
        found = fingerprint(f"built:{NAME}/{reference}", root)
        assert found == manifest["fingerprints"][reference] == content_fingerprint(built / reference)
    assert fingerprint(f"built:{NAME}", root) == content_fingerprint(built, leave_out=["BUILT.json"])


def test_references(root, built):
    assert is_builtin_reference("built:quickstart/train.jsonl")
    assert not is_builtin_reference("data/train.jsonl")
    for builder in BUILDERS.values():
        for output in builder.outputs:
            assert locate(f"built:{builder.name}/{output}", root) == root / "built" / builder.name / output
    for output in BUILDERS[NAME].outputs:
        assert (built / output).exists()
    assert locate("built:quickstart/model/config.json", root) == root / "built/quickstart/model/config.json"
    assert locate("built:quickstart", root) == root / "built/quickstart"


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("train.jsonl", "begin with 'built:'"),
        ("built:quickstrat/train.jsonl", "built:quickstart, built:quickstart-tiny"),
        ("built:", "built:quickstart, built:quickstart-tiny"),
        ("built:../x", "built:quickstart"),
        ("built:quickstart/../../etc/passwd", "lead out of"),
        ("built:quickstart//etc/passwd", "lead out of"),
        ("built:quickstart/trian.jsonl", "built:quickstart/train.jsonl"),
        ("built:quickstart/eval/long-4096", "built:quickstart/eval/long-2048"),
    ],
)
def test_wrong_references_are_refused_with_the_valid_ones(root, reference, said):
    with pytest.raises(BuilderError, match="built:") as caught:
        locate(reference, root)
    assert said in str(caught.value)


def test_unknown_names_and_parts(root):
    with pytest.raises(BuilderError, match="quickstart, quickstart-tiny"):
        build("quickstrat", root)
    with pytest.raises(BuilderError, match=r"holds no 'model/weights.bin'; it holds .*model/config\.json"):
        fingerprint(f"built:{NAME}/model/weights.bin", root)


def test_edits_are_noticed_and_unchanged_files_are_not_read_again(tmp_path, monkeypatch):
    from lmk_experiments.builders import fingerprints

    root, folder = tmp_path / "runs", tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "weights").write_bytes(b"one")
    (folder / "config").write_bytes(b"two")
    read: list[Path] = []
    digest = fingerprints._file_digest
    monkeypatch.setattr(fingerprints, "_file_digest", lambda path: (read.append(path), digest(path))[1])

    first = fingerprint(str(folder), root)
    assert first == content_fingerprint(folder)
    read.clear()
    assert fingerprint(str(folder), root) == first
    assert read == []

    (folder / "sub" / "weights").write_bytes(b"ONE")
    os.utime(folder / "sub" / "weights", ns=(1, 1))  # an edit of equal length
    second = fingerprint(str(folder), root)
    assert second == content_fingerprint(folder) != first
    (folder / "config").rename(folder / "other")
    assert fingerprint(str(folder), root) not in (first, second)

    file = folder / "other"
    assert fingerprint(str(file), root) == content_fingerprint(file)
    (root / "fingerprints.json").write_text("damaged")
    assert fingerprint(str(file), root) == content_fingerprint(file)
    assert fingerprint("organization/model-of-a-hub", root) is None
