"""Generated data, on the tiny quickstart: what is in it, and how it gets there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lmk_experiments.builders import build, fingerprint

NAME = "quickstart-tiny"
LENGTHS = (512, 1024, 2048)


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    build(NAME, root)
    return root


@pytest.fixture(scope="module")
def built(root) -> Path:
    return root / "built" / NAME


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def contents(folder: Path) -> dict[str, bytes]:
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if name != "BUILT.json"}


def answers(folder: Path) -> dict[str, str]:
    rows = (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()
    assert rows[0] == "query-id\tcorpus-id\tscore"
    return dict(row.split("\t")[:2] for row in rows[1:])


def python(code: str, *arguments: str, **environment: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_processes_at_once_and_another_root_give_the_same_bytes(root, built, tmp_path):
    code = f"import sys, pathlib, lmk_experiments.builders as b; print(b.build({NAME!r}, pathlib.Path(sys.argv[1])))"
    processes = [python(code, str(tmp_path), PYTHONHASHSEED=seed) for seed in ("1", "2")]
    for process in processes:
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        assert output.strip() == str(tmp_path / "built" / NAME)
    other = tmp_path / "built" / NAME
    assert contents(other) == contents(built)
    manifests = [json.loads((folder / "BUILT.json").read_text()) for folder in (built, other)]
    assert all(manifest.pop("created") for manifest in manifests)
    assert manifests[0] == manifests[1]
    assert sorted(path.name for path in other.parent.iterdir()) == [f".{NAME}.lock", NAME]


def test_a_second_call_makes_nothing(root, built):
    before = (built / "BUILT.json").stat()
    said: list[str] = []
    assert build(NAME, root, report=said.append) == built
    assert said == []
    assert (built / "BUILT.json").stat() == before


def test_a_killed_build_leaves_no_valid_folder_and_the_next_one_cleans_up(tmp_path, built):
    code = f"""
import os, signal, sys, pathlib, lmk_experiments.builders as b
def report(line):
    if "evaluation" in line:
        os.kill(os.getpid(), signal.SIGKILL)
b.build({NAME!r}, pathlib.Path(sys.argv[1]), report=report)
"""
    process = python(code, str(tmp_path))
    process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL
    folder = tmp_path / "built"
    [left] = [path for path in folder.iterdir() if path.is_dir()]
    assert (left / "train.jsonl").exists()
    assert not (folder / NAME).exists()
    assert fingerprint(f"built:{NAME}/train.jsonl", tmp_path) is None

    (folder / NAME).mkdir()  # what a user's copy without its last file looks like
    (folder / NAME / "train.jsonl").write_text("")
    assert contents(build(NAME, tmp_path)) == contents(built)
    assert not left.exists()


def test_training_rows_have_negatives_of_their_own_and_no_docstring(built):
    rows = lines(built / "train.jsonl")
    assert len(rows) == json.loads((built / "BUILT.json").read_text())["counts"]["train.jsonl"] > 300
    assert len({row["query"].lower() for row in rows}) == len(rows)
    for row in rows + lines(built / "validation.jsonl"):
        assert set(row) == {"query", "pos", "neg"}
        assert len(row["pos"]) == 1
        assert len(row["neg"]) == len(set(row["neg"])) == 3
        assert row["pos"][0] not in row["neg"]
        for passage in [*row["pos"], *row["neg"]]:
            assert passage.startswith(("def ", "async def "))
            assert row["query"] not in " ".join(passage.split())


def test_no_module_is_in_two_splits(built):
    modules = {line["split"]: set(line["modules"]) for line in lines(built / "modules.jsonl")}
    assert set(modules) == {"train", "validation", "evaluation"}
    assert all(modules.values())
    assert sum(map(len, modules.values())) == len(set().union(*modules.values()))
    for task in ("short", *(f"long-{tokens}" for tokens in LENGTHS)):
        asked = {query["metadata"]["module"] for query in lines(built / "eval" / task / "queries.jsonl")}
        assert asked <= modules["evaluation"]


def test_no_function_of_evaluation_or_validation_is_in_training(built):
    def passages(row):
        return {*row["pos"], *row["neg"]}

    training = set().union(*map(passages, lines(built / "train.jsonl")))
    validation = set().union(*map(passages, lines(built / "validation.jsonl")))
    evaluation = {document["text"][:1500] for document in lines(built / "eval" / "short" / "corpus.jsonl")}
    for tokens in LENGTHS:
        for document in lines(built / "eval" / f"long-{tokens}" / "corpus.jsonl"):
            evaluation |= {function[:1500] for function in document["text"].split("\n\n")}
    assert not training & evaluation
    assert not validation & evaluation
    assert not training & validation
    queries = {row["query"] for row in lines(built / "train.jsonl")}
    assert not queries & {query["text"] for query in lines(built / "eval" / "short" / "queries.jsonl")}


def test_short_search_asks_for_one_function_each(built):
    folder = built / "eval" / "short"
    corpus = {document["_id"]: document["text"] for document in lines(folder / "corpus.jsonl")}
    queries = {query["_id"]: query["text"] for query in lines(folder / "queries.jsonl")}
    right = answers(folder)
    assert len(corpus) == len(queries) == 100
    assert set(right) == set(queries)
    assert sorted(right.values()) == sorted(corpus)
    for query, document in right.items():
        name = document.rpartition(":")[2].rpartition(".")[2]
        assert corpus[document].partition("(")[0].removeprefix("async ") == f"def {name}"
        assert queries[query] not in " ".join(corpus[document].split())


@pytest.mark.parametrize("tokens", LENGTHS)
def test_long_documents_are_full_and_hold_the_function_in_its_quarter(built, tokens):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(built / "model" / "tokenizer.json"))
    folder = built / "eval" / f"long-{tokens}"
    corpus = {document["_id"]: document["text"] for document in lines(folder / "corpus.jsonl")}
    right = answers(folder)
    encoded = {module: tokenizer.encode(text, add_special_tokens=False) for module, text in corpus.items()}
    for encoding in encoded.values():
        assert 0.9 * tokens <= len(encoding.ids) <= tokens
    quarters = set()
    for query in lines(folder / "queries.jsonl"):
        module, name = query["metadata"]["module"], query["metadata"]["function"].rpartition(".")[2]
        assert right[query["_id"]] == module
        text = corpus[module]
        functions = text.split("\n\n")
        starts = [sum(len(one) + 2 for one in functions[:index]) for index in range(len(functions))]
        standing = []
        for start, function in zip(starts, functions, strict=True):
            if function.partition("(")[0].removeprefix("async ") == f"def {name}":
                inside = [i for i, (a, _) in enumerate(encoded[module].offsets) if start <= a < start + len(function)]
                assert len(inside) <= tokens / 4
                standing.append(int(2 * (inside[0] + inside[-1] + 1) / tokens) + 1)
        assert int(query["metadata"]["quarter"]) in standing
        quarters.add(query["metadata"]["quarter"])
    assert quarters == {"1", "2", "3", "4"}


def test_the_model_loads_with_special_tokens_as_modernbert(built):
    import torch
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(built / "model")
    tokenizer = AutoTokenizer.from_pretrained(built / "model")
    assert model.config.model_type == "modernbert"
    assert model.config.vocab_size == len(tokenizer) == 1024
    assert tokenizer.convert_ids_to_tokens(tokenizer("readFile").input_ids)[0] == "[CLS]"
    assert tokenizer("readFile").input_ids == tokenizer("read_file".replace("_", " ")).input_ids
    assert tokenizer("readFile").input_ids[-1] == tokenizer.sep_token_id == model.config.sep_token_id
    assert tokenizer.pad_token_id == model.config.pad_token_id
    assert (tokenizer.pad_token, tokenizer.mask_token) == ("[PAD]", "[MASK]")
    assert tokenizer.unk_token_id not in tokenizer("été 東京 🙂 \x00").input_ids
    with torch.no_grad():
        hidden = model(
            **tokenizer(["a text", "def longer(text):"], padding=True, return_tensors="pt")
        ).last_hidden_state
    assert hidden.shape[2] == 32
    assert torch.isfinite(hidden).all()


def test_the_model_depends_on_its_seed_only_and_leaves_the_random_state(tmp_path):
    import torch

    from lmk_experiments.builders.model import ModelShape, save_model, train_tokenizer

    tokenizer = train_tokenizer(["def read(path): return path"], 300)
    weights = []
    for place, seed, state in (("a", 0, 1), ("b", 0, 2), ("c", 1, 2)):
        torch.manual_seed(state)
        expected = torch.get_rng_state()
        save_model(tmp_path / place, tokenizer, ModelShape(16, 1, 2, 16, 300, seed=seed))
        assert torch.equal(torch.get_rng_state(), expected)
        weights.append((tmp_path / place / "model.safetensors").read_bytes())
        assert (tmp_path / place / "model.safetensors").stat().st_mode == (
            tmp_path / place / "config.json"
        ).stat().st_mode
    assert weights[0] == weights[1] != weights[2]


def test_import_is_light():
    heavy = "{'torch', 'transformers', 'tokenizers', 'mteb', 'lightning', 'mlflow'}"
    code = f"import sys, lmk_experiments.builders; print(*sorted(set(sys.modules) & {heavy}))"
    output, errors = python(code).communicate(timeout=60)
    assert output.strip() == "", errors
