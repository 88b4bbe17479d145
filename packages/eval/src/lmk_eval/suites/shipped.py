"""The suites of the paper: which tasks of MTEB stand behind each column of its tables. Plain data.

Each task says its split and subsets, and the metric that the paper reports for it (section 5 and the appendix's
"Evaluation"): NDCG@10, except precision at 1 for the needle and the passkey of LongEmbed, and macro-F1 for MultiEURLEX.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from lmk_eval.suites.suite import Suite
from lmk_eval.suites.task import Task

BEIR = (
    ("TRECCOVID", "test"),
    ("NFCorpus", "test"),
    ("NQ", "test"),
    ("HotpotQA", "test"),
    ("FiQA2018", "test"),
    ("ArguAna", "test"),
    ("Touche2020", "test"),
    ("CQADupstackRetrieval", "test"),
    ("QuoraRetrieval", "test"),
    ("DBPedia", "test"),
    ("SCIDOCS", "test"),
    ("FEVER", "test"),
    ("ClimateFEVER", "test"),
    ("SciFact", "test"),
    ("MSMARCO", "dev"),
)
"""BEIR as MTEB lists it; fifteen tasks only with MS MARCO's own dev queries among them."""

MTEB_ENGLISH = (
    "ArguAna",
    "CQADupstackGamingRetrieval",
    "CQADupstackUnixRetrieval",
    "ClimateFEVERHardNegatives",
    "FEVERHardNegatives",
    "FiQA2018",
    "HotpotQAHardNegatives",
    "SCIDOCS",
    "TRECCOVID",
    "Touche2020Retrieval.v3",
)
"""The retrieval tasks of MTEB(eng, v2)."""

COIR_ONE_LANGUAGE = (
    "AppsRetrieval",
    "CodeFeedbackMT",
    "CodeFeedbackST",
    "CodeTransOceanContest",
    "CodeTransOceanDL",
    "CosQA",
    "StackOverflowQA",
    "SyntheticText2SQL",
)
"""The eight tasks of CoIR that have no subsets."""

COIR_SIX_LANGUAGES = ("COIRCodeSearchNetRetrieval", "CodeSearchNetCCRetrieval")

MIRACL_LANGUAGES = "ar bn de en es fa fi fr hi id ja ko ru sw te th yo zh"
MLDR_LANGUAGES = "ar de en es fr hi it ja ko pt ru th zh"
EURLEX_LANGUAGES = "bg cs da de el en es et fi fr hr hu it lt lv mt nl pl pt ro sk sl sv"


def shipped_suites() -> list[str]:
    """The names of the suites that ship, sorted."""
    return sorted(_suites())


def shipped_suite(name: str) -> Suite:
    """The shipped suite of this name.

    >>> [task.mteb for task in shipped_suite("mldr-en").tasks]
    ['MultiLongDocRetrieval']

    Raises:
        KeyError: there is none; ``shipped_suites`` lists them.
    """
    return _suites()[name]


@cache
def _suites() -> Mapping[str, Suite]:
    suites = (
        # Tables 1, 3, 6: "MSMarco, Dev", in domain.
        _suite("msmarco-dev", "MS MARCO dev", _task("MSMARCO", "dev")),
        # Tables 1, 3, 6: "BEIR (15)".
        _suite("beir15", "BEIR (15)", *(_task(name, split) for name, split in BEIR)),
        # Tables 1, 3, 6: "MTEBv2 (10)".
        _suite("mteb-eng-v2-retrieval", "MTEB v2 (10)", *(_task(name) for name in MTEB_ENGLISH)),
        # Tables 1 and 3: "MIRACL Dev", Table 6: "MIRACL-HN EN"; rows that both tables show carry one number.
        _suite("miracl-en", "MIRACL", _task("MIRACLRetrievalHardNegatives", "dev", subsets="en")),
        # Tables 2 and 5: "MIRACL (18)"; section 5, Multilingual: hard negatives.
        _suite(
            "miracl-hn-18",
            "MIRACL (18)",
            _task("MIRACLRetrievalHardNegatives", "dev", subsets=MIRACL_LANGUAGES, group_by="subset"),
        ),
        # Tables 1, 3, 6: "MLDR Test" and "MLDR EN".
        _suite("mldr-en", "MLDR", _task("MultiLongDocRetrieval", subsets="en")),
        # Tables 2, 4, 5: "MLDR (13)".
        _suite("mldr-13", "MLDR (13)", _task("MultiLongDocRetrieval", subsets=MLDR_LANGUAGES, group_by="subset")),
        # Tables 1, 3, 6: "COIR (8)"; MTEB's CoIR has ten tasks, and the paper's evaluation script averages all of them.
        _suite(
            "coir10",
            "CoIR (10)",
            *(_task(name) for name in COIR_ONE_LANGUAGE),
            *(_task(name, group_by="subset") for name in COIR_SIX_LANGUAGES),
        ),
        # The same column read literally: the eight tasks of one language each.
        _suite("coir8", "CoIR (8)", *(_task(name) for name in COIR_ONE_LANGUAGE)),
        # Every table: "LongEmbed (6), P@1 | NDCG@10"; needle and passkey are means over all eight lengths.
        _suite(
            "longembed",
            "LongEmbed (6)",
            _task("LEMBNarrativeQARetrieval"),
            _task("LEMBQMSumRetrieval"),
            _task("LEMBSummScreenFDRetrieval", "validation"),
            _task("LEMBWikimQARetrieval"),
            _task("LEMBNeedleRetrieval", None, "precision_at_1", group_by="split"),
            _task("LEMBPasskeyRetrieval", None, "precision_at_1", group_by="split"),
        ),
        # Tables 2, 4, 5: "M-Eurlex (23), F1"; macro-F1 (section 5, Multilingual).
        _suite(
            "multieurlex-23",
            "MultiEURLEX (23)",
            _task("MultiEURLEXMultilabelClassification", "test", "f1", subsets=EURLEX_LANGUAGES, group_by="subset"),
        ),
    )
    return {suite.name: suite for suite in suites}


def _suite(name: str, title: str, *tasks: Task) -> Suite:
    return Suite(name=name, title=title, tasks=tasks)


def _task(
    name: str,
    split: str | None = "test",
    metric: str = "ndcg_at_10",
    *,
    subsets: str | None = None,
    group_by: str | None = None,
) -> Task:
    languages = tuple(subsets.split()) if subsets else None
    return Task(name=name, mteb=name, split=split, subsets=languages, metric=metric, group_by=group_by)
