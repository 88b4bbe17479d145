"""``lmk data build``: the training layouts it makes of published files."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from row_files import rows, write

from lmk_experiments.builders import published
from lmk_experiments.builders.languages import LANGUAGES
from lmk_experiments.builders.published import PUBLISHED, build_published
from lmk_experiments.cli.main import main
from lmk_experiments.datasets import DataSetMissing, data_path, load_data_set
from lmk_experiments.grids import load_grid_file
from lmk_train.data import DataError
from lmk_train.data.reading import Rows


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Declares other numbers of rows than the millions that were published."""

    def declare(**changes: Any) -> None:
        def load(name: str) -> Any:
            return load_data_set(name).model_copy(update=changes)

        monkeypatch.setattr(published, "load_data_set", load)

    return declare


def quiet(_line: str) -> None:
    pass


@pytest.mark.parametrize("ending", [".parquet", ".jsonl", ".jsonl.gz"])
@pytest.mark.parametrize("name", ["msmarco-passage", "msmarco-document"])
def test_msmarco_of_published_parts(
    name: str, ending: str, lmk: Callable[..., Result], counted: Callable[..., None], tmp_path: Path
) -> None:
    word = name.replace("-", "_")
    source = tmp_path / "bge-full-data/data"
    write(source / f"{word}-00000-of-00002{ending}", *rows(5))
    write(source / f"{word}-00001-of-00002{ending}", *rows(4, prompt="Given a query"))
    write(source / f"arguana-00000-of-00001{ending}", *rows(3))
    counted(rows=9)
    done = lmk("data", "build", name, source)
    assert done.exit_code == 0
    assert "2 of 3 files, those named" in done.output
    out = tmp_path / "runs/data" / name
    assert sorted(path.name for path in out.iterdir()) == ["DATA.json", "rows.jsonl"]
    assert data_path(f"data:{name}", tmp_path / "runs") == out, "what grids name"
    assert [row.query for row in Rows([out])] == [f"q{number}" for number in (0, 1, 2, 3, 4, 0, 1, 2, 3)]
    assert all(row.has_scores for row in Rows([out]))
    manifest = json.loads((out / "DATA.json").read_text())
    assert (manifest["rows"], manifest["rows_with_scores"], manifest["version"]) == (9, 9, "1")
    assert [(Path(one["file"]).name, one["rows"]) for one in manifest["read"]] == [
        (f"{word}-00000-of-00002{ending}", 5),
        (f"{word}-00001-of-00002{ending}", 4),
    ]
    (written,) = manifest["written"]
    assert written["sha256"] == hashlib.sha256((out / "rows.jsonl").read_bytes()).hexdigest()
    before = (out / "DATA.json").stat().st_mtime_ns
    assert lmk("data", "build", name, source).output.strip() == str(out)
    assert (out / "DATA.json").stat().st_mtime_ns == before, "built once"


def test_the_numbers_of_rows_are_the_published_ones() -> None:
    assert load_data_set("msmarco-passage").rows == 502_939
    assert load_data_set("msmarco-document").rows == 367_013
    parts = load_data_set("bge-m3").parts
    assert parts is not None
    assert sum(parts.values()) == load_data_set("bge-m3").rows == 1_569_864
    assert {name.removesuffix(".jsonl") for name in parts} == set(LANGUAGES)


@pytest.mark.parametrize("grid", ["table2", "table4", "table5"])
def test_the_multilingual_grids_mix_the_languages_that_are_built(grid: str) -> None:
    parts = load_data_set("bge-m3").parts
    assert parts is not None
    for row in load_grid_file(grid).rows:
        shares = {entry.paths[0].removeprefix("data:bge-m3/"): entry.share for entry in row.config.data.sets}
        assert shares.keys() == parts.keys()
        assert (shares["en.jsonl"], shares["zh.jsonl"], shares["sw.jsonl"], shares["te.jsonl"]) == (200, 80, 2, 1)
        assert sum(share or 0 for share in shares.values()) == 340


def test_other_numbers_of_rows_are_refused_or_marked(tmp_path: Path) -> None:
    source = write(tmp_path / "rows.parquet", *rows(3))
    out = tmp_path / "runs/data/msmarco-passage"
    with pytest.raises(ValueError, match=r"has 502,939 rows, and these files hold 3; --any-count builds it"):
        build_published("msmarco-passage", [source], out, report=quiet)
    assert [path.name for path in out.parent.iterdir()] == [".msmarco-passage.lock"]
    build_published("msmarco-passage", [source], out, any_count=True, report=quiet)
    assert json.loads((out / "DATA.json").read_text())["version"] == "1-excerpt"
    with pytest.raises(DataSetMissing, match="version '1-excerpt', but this is to be"):
        data_path("data:msmarco-passage", tmp_path / "runs")
    with pytest.raises(ValueError, match="is there and is not a whole msmarco-passage; remove it"):
        build_published("msmarco-passage", [source], out, report=quiet)


def test_faulty_rows_stop_a_build(counted: Callable[..., None], tmp_path: Path) -> None:
    source = write(tmp_path / "rows.jsonl", *rows(3), {"query": "q"}, *rows(6))
    counted(rows=9)
    with pytest.raises(DataError, match=r"rows.jsonl:4: the key 'pos' is missing"):
        build_published("msmarco-document", [source], tmp_path / "out", report=quiet)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.lock", "rows.jsonl"], "nothing half is left"
    build_published("msmarco-document", [source], tmp_path / "out", max_faulty=0.1, report=quiet)
    manifest = json.loads((tmp_path / "out/DATA.json").read_text())
    assert (manifest["rows"], manifest["counts"]["missing_key"], len(manifest["faults"])) == (9, 1, 1)


def test_a_killed_build_leaves_nothing_that_looks_whole(
    counted: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    counted(rows=3)
    source = write(tmp_path / "rows.jsonl", *rows(3))

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(published, "write_json", killed)
        # As if by SIGKILL: nothing is cleared away.
        patch.setattr(published.Writing, "abandon", lambda self: [one.close() for one in self.streams.values()])
        with pytest.raises(KeyboardInterrupt):
            build_published("msmarco-passage", [source], tmp_path / "out", report=quiet)
    (left,) = tmp_path.glob(".out.*.*")
    assert (left / "rows.jsonl").stat().st_size
    assert not (tmp_path / "out").exists()
    assert build_published("msmarco-passage", [source], tmp_path / "out", report=quiet).is_dir()
    assert not left.exists(), "the next build clears it away"


def test_bge_m3_by_language(counted: Callable[..., None], lmk: Callable[..., Result], tmp_path: Path) -> None:
    source = tmp_path / "bge-m3-data"
    write(source / "MSMARCO/MSMARCO_len-0-500.jsonl", *rows(2))
    write(source / "MSMARCO/MSMARCO_len-500-1000.jsonl", *rows(1))
    write(source / "NLI/NLI_len-0-500.jsonl", *rows(1))
    write(source / "NLI-zh/NLI-zh_len-0-500.jsonl", *rows(3))
    write(source / "DuReader/DuReader_len-0-500.jsonl.gz", *rows(1))
    write(source / "MIRACL/MIRACL-sw_len-0-500.jsonl", *rows(2))
    write(source / "merged_farsi.jsonl.gz", *rows(1))
    write(source / "MLDR/MLDR_len-1000-2000.parquet", *rows(1, language="th"), *rows(2, language="german"))
    parts = {"en.jsonl": 4, "zh.jsonl": 4, "sw.jsonl": 2, "fa.jsonl": 1, "th.jsonl": 1, "de.jsonl": 2}
    counted(rows=14, parts=parts)
    done = lmk("data", "build", "bge-m3", source)
    assert done.exit_code == 0, done.output
    out = tmp_path / "runs/data/bge-m3"
    assert {path.name: len(Rows([path])) for path in out.glob("*.jsonl")} == parts
    assert "(sw)" in done.output
    counted(rows=14, parts={**parts, "de.jsonl": 3, "th.jsonl": 0})
    with pytest.raises(ValueError, match=r"other rows: de.jsonl 2 of 3, th.jsonl 1 of 0; --any-count"):
        build_published("bge-m3", [source], tmp_path / "other", report=quiet)


def test_a_language_that_nobody_says(counted: Callable[..., None], tmp_path: Path) -> None:
    source = tmp_path / "de/bge-m3-data"  # a folder above it says nothing about it
    write(source / "MIRACL_len-0-500.jsonl", *rows(2))
    with pytest.raises(DataError, match=r"MIRACL_len-0-500.jsonl:1: neither its path nor its rows say its language"):
        build_published("bge-m3", [source], tmp_path / "out", report=quiet)
    with pytest.raises(ValueError, match=r"--language \*=xx: PATTERN=CODE is expected"):
        build_published("bge-m3", [source], tmp_path / "out", languages=["*=xx"], report=quiet)
    counted(parts={"fi.jsonl": 2})
    build_published("bge-m3", [source], tmp_path / "out", languages=["MIRACL_*=fi"], report=quiet)
    write(source / "MIRACL_len-0-500.jsonl", *rows(1, language="klingon"))
    with pytest.raises(DataError, match="the language 'klingon' is not known"):
        build_published("bge-m3", [source], tmp_path / "again", report=quiet)


def test_tevatrons_layout_becomes_ours(counted: Callable[..., None], tmp_path: Path) -> None:
    passages = [{"docid": str(i), "title": "T", "text": f"text {i}"} for i in range(3)]
    row = {"query_id": "1", "query": "q", "positive_passages": passages[:1], "negative_passages": passages[1:]}
    counted(rows=1)
    out = build_published("msmarco-passage", [write(tmp_path / "train.jsonl", row)], tmp_path / "out", report=quiet)
    assert json.loads((out / "rows.jsonl").read_text()) == {
        "query": "q",
        "pos": ["T text 0"],
        "neg": ["T text 1", "T text 2"],
    }
    assert json.loads((out / "DATA.json").read_text())["counts"] == {"few_negatives": 1}


def test_builds_of_the_real_excerpts(shared: Path, tmp_path: Path) -> None:
    """The published format, read as it is published."""
    examples = shared / "data/train/flagembedding_examples"
    out = build_published(
        "msmarco-passage", [examples / "msmarco.jsonl"], tmp_path / "out", any_count=True, report=quiet
    )
    source = [json.loads(line) for line in (examples / "msmarco.jsonl").read_text().splitlines()]
    built = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]
    assert built == [{key: row[key] for key in row if row[key] is not None} for row in source]
    debian = shared / "data/train/debian_desc_multi_e5.sample.jsonl"
    with pytest.raises(DataError, match="say it with --language"):
        build_published("bge-m3", [debian], tmp_path / "m3", any_count=True, report=quiet)
    build_published("bge-m3", [debian], tmp_path / "m3", any_count=True, languages=["*debian*=de"], report=quiet)
    assert len(Rows([tmp_path / "m3/de.jsonl"])) == 126


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nope",), "nothing builds 'nope'"),
        (("msmarco-passage",), "lmk data build msmarco-passage FILE_OR_FOLDER..."),
        (("quickstart-tiny", "--any-count"), "quickstart-tiny is made from what is installed"),
        (("bge-m3", "missing-folder"), "missing-folder: does not exist"),
    ],
)
def test_mistakes(
    arguments: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(sys, "argv", ["lmk", "data", "build", *arguments, "--root", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_every_published_data_set_is_declared() -> None:
    assert {load_data_set(name).name for name in PUBLISHED} == set(PUBLISHED)
    for name in PUBLISHED:
        assert f"lmk data build {name}" in load_data_set(name).build
