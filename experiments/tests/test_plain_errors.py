"""What a person reads when a command is given what it cannot use: one line that names it, and exit code 2."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from lmk_experiments.cli import main as command
from lmk_experiments.cli.run_grid import what_next

CLS = ("--pooling", "{kind: cls}")
TINY = {
    "model_type": "modernbert",
    "architectures": ["ModernBertModel"],
    "vocab_size": 16,
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    **dict.fromkeys(("pad_token_id", "eos_token_id", "bos_token_id", "cls_token_id", "sep_token_id"), 0),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a suite ``s`` and nothing else, and no network."""
    (tmp_path / "s/qrels").mkdir(parents=True)
    (tmp_path / "s/corpus.jsonl").write_text('{"_id": "d", "text": "a text"}\n')
    (tmp_path / "s/queries.jsonl").write_text('{"_id": "q", "text": "a query"}\n')
    (tmp_path / "s/qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq\td\t1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return tmp_path


def said(arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """The error of a command that is given bad input."""
    monkeypatch.setattr("sys.argv", ["lmk", *arguments])
    with pytest.raises(SystemExit) as stopped:
        command.main()
    errors = capsys.readouterr().err
    assert stopped.value.code == 2, errors
    assert "Traceback" not in errors
    return errors


@pytest.mark.parametrize(
    ("pooling", "says"),
    [
        ("{kind: cls", "not valid YAML: "),
        ("!!python/name:os.system", "not valid YAML: could not determine a constructor"),
        ("&a [*a]", "an alias (*name) stands inside of what it names"),
        ("{kind: clss}", "kind: 'clss' is not a pooling kind; valid: cls, "),
        ("", "a pooling is a mapping such as {kind: landmark}"),
    ],
)
def test_a_pooling_that_is_none(
    pooling: str, says: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = said(("evaluate", "m", "--suite", "s", "--pooling", pooling), monkeypatch, capsys)
    assert told.startswith(f"error: --pooling {pooling}: ")
    assert says in told


@pytest.mark.parametrize("model", ["nope/nope", "./nope", "a/b/c d"])
def test_a_model_that_is_not_here(
    model: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = said(("evaluate", model, "--suite", "s"), monkeypatch, capsys)
    assert told.startswith(f"error: {model}: there is no such folder here")


def test_a_hub_that_does_not_answer_is_no_missing_model(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from huggingface_hub import constants
    from huggingface_hub.errors import LocalEntryNotFoundError

    def no_answer(*_: object, **__: object) -> str:
        raise LocalEntryNotFoundError("Connection refused")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", no_answer)
    told = said(("evaluate", "nope/nope", "--suite", "s"), monkeypatch, capsys)
    assert "whether it has config.json can't be found out" in told
    assert "Connection refused" in told
    assert told.count("nope/nope") == 1


def test_an_empty_folder(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "m").mkdir()
    told = said(("evaluate", "m", "--suite", "s"), monkeypatch, capsys)
    assert told.startswith("error: m has no config.json; a model's folder holds config.json and its weights as")


def test_weights_that_are_none(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "m").mkdir()
    (here / "m/config.json").write_text(json.dumps(TINY))
    (here / "m/model.safetensors").write_bytes(b"junk" * 10)
    told = said(("evaluate", "m", "--suite", "s"), monkeypatch, capsys)
    assert "m: the model does not say how it is pooled; say it, for example --pooling '{kind: landmark," in told
    told = said(("evaluate", "m", "--suite", "s", *CLS), monkeypatch, capsys)
    assert told.splitlines()[-1].startswith("error: m: its *.safetensors cannot be read: ")


def test_a_table_into_a_folder(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    told = said(("table", "table1", "--published", "--format", "tex", "--out", "s"), monkeypatch, capsys)
    assert told == "error: --out s: this is a folder; name a file, for example s/table1.tex\n"


def test_what_next_can_be_typed_and_is_aligned() -> None:
    root = Path("/a folder/runs")
    lines = what_next("quickstart", root).splitlines()[1:]
    assert shlex.split(lines[0])[:5] == ["lmk", "status", "quickstart", "--root", str(root)]
    meanings = ("every cell", "this table again", "the runs, their", "a model: ")
    columns = {line.index(meaning) for line, meaning in zip(lines, meanings, strict=True)}
    assert len(columns) == 1
