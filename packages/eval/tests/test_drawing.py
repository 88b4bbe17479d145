"""Long documents are drawn by a seed: the order and the files of a corpus do not matter."""

from __future__ import annotations

from collections.abc import Sequence

from lmk_eval.analyses.drawing import draw

TEXTS = [f"document {number} {'long' if number % 3 else 'short'}" for number in range(500)]


def is_long(texts: Sequence[str]) -> list[bool]:
    return [text.endswith("long") for text in texts]


def drawn(texts: Sequence[str], limit: int = 10, seed: int | None = 0) -> list[str]:
    return draw(iter(texts), is_long, limit, seed, lambda _: None)


def test_the_order_of_texts_and_those_that_stand_twice_do_not_matter() -> None:
    found = drawn(TEXTS)
    assert len(set(found)) == 10
    assert all(is_long(found))
    assert drawn(TEXTS[::-1]) == drawn([*TEXTS, *TEXTS]) == found
    assert found != [text for text in TEXTS if is_long([text])[0]][:10]


def test_another_seed_draws_others_and_more_documents_keep_the_fewer() -> None:
    assert set(drawn(TEXTS, seed=1)) != set(drawn(TEXTS))
    assert drawn(TEXTS, 20)[:10] == drawn(TEXTS, 10)


def test_without_a_seed_the_first_are_taken_and_no_more_is_read() -> None:
    read: list[str] = []

    def texts():
        for text in TEXTS:
            read.append(text)
            yield text

    assert draw(texts(), is_long, 4, None, lambda _: None) == [TEXTS[n] for n in (1, 2, 4, 5)]
    assert len(read) == 64


def test_few_texts_are_looked_at() -> None:
    looked: list[str] = []

    def counting(texts: Sequence[str]) -> list[bool]:
        looked.extend(texts)
        return is_long(texts)

    found = draw(TEXTS * 20, counting, 10, 0, lambda held: None)
    assert found == drawn(TEXTS)
    assert len(looked) < 600
    assert drawn(["short"]) == []
