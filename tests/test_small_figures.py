"""A small copy of each of the paper's figures, from plan to picture: its own rows and settings, a toy model, few texts.

The copies run in one process, through the very functions that jobs call. Where a copy differs from the shipped grid it
is smaller, and nothing else.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from lmk_experiments.builders import build
from lmk_experiments.cli.main import app
from lmk_experiments.configs import shipped_folder
from lmk_experiments.grids import Plan, load_grid_file, make_plan
from lmk_experiments.jobs.analyze import run_analysis
from lmk_experiments.jobs.fan import write_cells
from lmk_experiments.jobs.train import run_training
from lmk_experiments.records import analysis_cell, load_grid, training_cell
from lmk_experiments.report import gather, render_page

pytestmark = pytest.mark.slow

SMALLER: dict[str, dict[str, Any]] = {
    "fig2": {"max_length": [16, 32, 64], "bins": 8, "documents": 3},
    "fig3": {"tokenizer": "./weights/modernbert-base", "max_lengths": [4, 8, 64]},
    "fig4": {"min_chunks": 6, "k": 2, "documents": 3},
}
"""Options of each figure's copy that the shipped grid has larger, or of the hub."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small presets and models under the names of the large ones, and a root with data as if fetched."""
    folder = tmp_path_factory.mktemp("figures")
    built = build("quickstart-tiny", folder / "runs")
    for kind in ("presets", "models"):
        (folder / kind).mkdir()
    for name in ("bge_m3_long", "msmarco_passage"):
        value = yaml.safe_load((shipped_folder("presets") / f"{name}.yaml").read_text(encoding="utf-8"))
        rows = {"train": ["built:quickstart-tiny/train.jsonl"], "negatives": 1, "query_max_length": 32}
        value["data"] = value["data"] | rows | {"passage_max_length": 32}
        value["optim"] |= {"steps": 2, "batch_size": 4, "warmup_steps": 1}
        value |= {"precision": "fp32", "runtime": {"accelerator": "cpu", "threads": 1, "checkpoint_every": None}}
        (folder / f"presets/{name}.yaml").write_text(yaml.safe_dump(value))
    for name in ("mmbert-base", "modernbert-base"):
        shutil.copytree(built / "model", folder / f"weights/{name}")
        (folder / f"models/{name}.yaml").write_text(f"model: {{path: ../weights/{name}}}\n")
    data = folder / "runs/data"
    corpus = data / "mteb/MultiLongDocRetrieval/en"
    (corpus / "qrels").mkdir(parents=True)
    texts = [
        " ".join(f"the {word} of number {n} is {n * 7}" for n in range(60)) for word in ["list", "file", "key", "word"]
    ]
    documents = [json.dumps({"_id": f"d{n}", "text": text}) for n, text in enumerate([*texts, "too short"])]
    (corpus / "corpus.jsonl").write_text("\n".join(documents) + "\n")
    (corpus / "queries.jsonl").write_text('{"_id": "q0", "text": "list"}\n')
    (corpus / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td0\t1\n")
    passages = data / "msmarco-document"
    passages.mkdir()
    rows = [{"query": "a", "pos": ["two words"], "neg": [texts[0], "three words here"]}] * 5
    (passages / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (passages / "DATA.json").write_text('{"name": "msmarco-document", "version": "1"}')
    return folder


def small_copy(name: str, folder: Path) -> str:
    """The grid's file with smaller options, beside small presets and models."""
    value = yaml.safe_load((shipped_folder("grids") / f"{name}.yaml").read_text(encoding="utf-8"))
    value = {key: held for key, held in value.items() if key not in ("assumed", "collection")}
    (entry,) = value["analyze"]
    entry |= SMALLER[name]
    value["base"] = [f"./{base}.yaml" for base in value.get("base", [])]
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(value, sort_keys=False))
    return str(file)


def run(plan: Plan, root: Path) -> None:
    record = write_cells(plan, root, None)
    for training in record.trainings:
        run_training(str(training_cell(root, training.id).folder))
    for analysis in record.analyses:
        run_analysis(str(analysis_cell(root, analysis.id).folder))


@pytest.mark.parametrize("name", ["fig2", "fig3", "fig4"])
def test_a_small_copy_runs_to_its_figure(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LMK_DATA", raising=False)
    root = folder / "runs"
    plan = make_plan(load_grid_file(small_copy(name, folder)), root)
    large = make_plan(load_grid_file(name), root)
    assert [row.row for row in plan.trainings] == [row.row for row in large.trainings]
    assert [[one.name for one in planned.series] for planned in plan.analyses] == [
        [one.name for one in planned.series] for planned in large.analyses
    ]
    run(plan, root)

    (analysis,) = load_grid(root, name).analyses
    cell = analysis_cell(root, analysis.id)
    done = cell.done()
    assert done is not None
    kind = analysis.kind
    assert {f"{kind}.{ending}" for ending in ("png", "svg", "csv", "json")} <= set(done["files"])
    assert (cell.folder / f"{kind}.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (cell.folder / f"{kind}.svg").read_text(encoding="utf-8")
    names = [one.name for one in plan.analyses[0].series] or ["MS MARCO documents"]
    shown = {line.get("series", line.get("data")) for line in done["summary"]}
    assert shown == set(names)

    told = CliRunner().invoke(app, ["table", name, "--root", str(root)])
    assert told.exit_code != 0
    assert "has no table" in str(told.exception)
    assert str(cell.folder / f"{kind}.png") in str(told.exception)

    page = render_page(gather(load_grid(root, name), root))
    assert 'id="analyses"' in page
    assert page.count('<svg class="drawn"') == 1
    assert not re.search(r"<(script|style type|image|foreignObject)", page)


def test_what_the_copies_found(folder: Path) -> None:
    root = folder / "runs"
    if not (root / "grids/fig4/grid.json").exists():
        pytest.skip("the copies were not run")
    found = {}
    for name in SMALLER:
        (analysis,) = load_grid(root, name).analyses
        found[name] = analysis_cell(root, analysis.id).done()["metrics"]
    # 15 passages: 5 of two words, 5 of three, 5 long ones, each with CLS and SEP.
    assert found["fig3"]["MS MARCO documents/texts"] == 15
    assert found["fig3"]["MS MARCO documents/longest"] > 64
    assert found["fig4"]["lmk-var-32/chunk/chance"] == pytest.approx(2 / 6)
    assert found["fig4"]["lmk-var-32/chunk/documents"] == 3
    lengths = {float(name.split("/")[1]) for name in found["fig2"]}
    assert lengths == {16, 32, 64}
    assert all(0 < value < 1 for name, value in found["fig2"].items() if name.endswith("mean_position"))
