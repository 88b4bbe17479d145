"""The suites of the paper: which tasks of MTEB stand behind each column of its tables. Plain data.

Each task says its split and subsets, and the metric that the paper reports for it (section 5 and the appendix's
"Evaluation"): NDCG@10, except precision at 1 for the needle and the passkey of LongEmbed, and macro-F1 for MultiEURLEX.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        _suite("msmarco-dev", "MS MARCO dev", 'tables 1, 3, 6: "MSMarco, Dev"; in domain', [_task("MSMARCO", "dev")]),
        _suite(
            "beir15",
            "BEIR (15)",
            'tables 1, 3, 6: "BEIR (15)"',
            [_task(name, split) for name, split in BEIR],
            "fifteen only with MS MARCO's own dev queries, though they are in domain: MTEB's BEIR counts them too",
        ),
        _suite(
            "mteb-eng-v2-retrieval",
            "MTEB v2 (10)",
            'tables 1, 3, 6: "MTEBv2 (10)"',
            [_task(name) for name in MTEB_ENGLISH],
        ),
        _suite(
            "miracl-en",
            "MIRACL",
            'tables 1 and 3: "MIRACL Dev"; table 6: "MIRACL-HN EN"',
            [_task("MIRACLRetrievalHardNegatives", "dev", subsets="en")],
            "hard negatives under both names: rows that tables 1 and 6 share carry one number",
        ),
        _suite(
            "miracl-hn-18",
            "MIRACL (18)",
            'tables 2 and 5: "MIRACL (18)"; section 5, Multilingual: hard negatives',
            [_task("MIRACLRetrievalHardNegatives", "dev", subsets=MIRACL_LANGUAGES, group_by="subset")],
        ),
        _suite(
            "mldr-en",
            "MLDR",
            'tables 1, 3, 6: "MLDR Test", "MLDR EN"',
            [_task("MultiLongDocRetrieval", subsets="en")],
        ),
        _suite(
            "mldr-13",
            "MLDR (13)",
            'tables 2, 4, 5: "MLDR (13)"',
            [_task("MultiLongDocRetrieval", subsets=MLDR_LANGUAGES, group_by="subset")],
            "the test split, as table 1 says of its English column",
        ),
        _suite(
            "coir10",
            "CoIR (10)",
            'tables 1, 3, 6: "COIR (8)"',
            [
                *(_task(name) for name in COIR_ONE_LANGUAGE),
                *(_task(name, group_by="subset") for name in COIR_SIX_LANGUAGES),
            ],
            "all ten tasks of MTEB's CoIR, which the paper's published evaluation script averages; coir8 has eight",
        ),
        _suite(
            "coir8",
            "CoIR (8)",
            'tables 1, 3, 6: "COIR (8)"',
            [_task(name) for name in COIR_ONE_LANGUAGE],
            "the paper does not name its eight: these are the tasks of one language each; coir10 has all",
        ),
        _suite(
            "longembed",
            "LongEmbed (6)",
            'every table: "LongEmbed (6), P@1 | NDCG@10"; section 5: at 32,768 tokens',
            [
                _task("LEMBNarrativeQARetrieval"),
                _task("LEMBQMSumRetrieval"),
                _task("LEMBSummScreenFDRetrieval", "validation"),
                _task("LEMBWikimQARetrieval"),
                _task("LEMBNeedleRetrieval", None, "precision_at_1", group_by="split"),
                _task("LEMBPasskeyRetrieval", None, "precision_at_1", group_by="split"),
            ],
            "P@1 for needle and passkey, each the mean over all eight lengths, as the paper's published script has it",
        ),
        _suite(
            "multieurlex-23",
            "MultiEURLEX (23)",
            'tables 2, 4, 5: "M-Eurlex (23), F1"; section 5, Multilingual',
            [_task("MultiEURLEXMultilabelClassification", "test", "f1", subsets=EURLEX_LANGUAGES, group_by="subset")],
            "macro-F1 of MTEB's nearest-neighbour probe over the whole test split: its task's first version, not .v2",
        ),
    )
    return {suite.name: suite for suite in suites}


def _suite(name: str, title: str, source: str, tasks: Sequence[Task], assumed: str | None = None) -> Suite:
    return Suite(name=name, title=title, source=source, assumed=assumed, tasks=tuple(tasks))


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
