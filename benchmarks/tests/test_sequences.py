"""Labeling sentences: what the comparison rests on."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from benchmarks import hyphenation, linked_words, sequences
from benchmarks.sentences import FEATURES, GRAMMARS, common_words, draw_sentences, make_frame


@pytest.mark.parametrize("name", list(GRAMMARS))
def test_chances_of_a_grammar_add_up_and_lead_to_its_labels(name) -> None:
    grammar = GRAMMARS[name]
    assert len(grammar.labels) == 8
    for chances in (*grammar.follows.values(), *grammar.sources.values()):
        assert sum(chances.values()) == pytest.approx(1.0)
    assert {label for chances in grammar.follows.values() for label in chances} == {*grammar.labels, "end"}


def test_a_seed_fixes_the_sentences_and_more_begin_with_the_same() -> None:
    few, many = (draw_sentences(GRAMMARS["tags"], count, seed=3) for count in (5, 9))
    assert many[:5] == few
    assert draw_sentences(GRAMMARS["tags"], 5, seed=4) != few


def test_a_frame_has_a_row_per_word_and_no_gap() -> None:
    sentences = draw_sentences(GRAMMARS["references"], 30)
    known = common_words(sentences)
    frame = make_frame(sentences, known)
    assert len(frame) == sum(len(one.words) for one in sentences)
    assert sum(frame.null_count().row(0)) == 0
    assert set(frame["word"]) <= known | {"?"}
    assert (frame["before"] == "start").sum() == (frame["after"] == "end").sum() == 30


def test_viterbi_finds_what_trying_all_chains_finds() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        logits, steps = rng.normal(size=(4, 3)), rng.normal(size=(3, 3))
        chains = list(product(range(3), repeat=4))
        worth = [
            sum(logits[t, k] for t, k in enumerate(chain)) + sum(steps[a, b] for a, b in pairwise(chain))
            for chain in chains
        ]
        assert linked_words.viterbi(logits, steps) == list(chains[int(np.argmax(worth))])


def test_a_sentence_is_right_when_all_its_words_are() -> None:
    frame = make_frame(draw_sentences(GRAMMARS["tags"], 4), set())
    found = frame["label"].to_numpy().copy()
    assert sequences.score_labels(found, frame) == {"words_right": 1.0, "sentences_right": 1.0}
    found[0] = "nothing"
    assert sequences.score_labels(found, frame)["sentences_right"] == 0.75


def test_chain_weights_give_the_conditionals_of_the_field() -> None:
    sentences = draw_sentences(GRAMMARS["tags"], 60)
    frame = make_frame(sentences, common_words(sentences))
    field = linked_words.RelationalField(l1=0.3, n_jobs=1).fit(linked_words.link_words(frame))
    bias, known, steps = linked_words.read_chain(field)
    states = field.states_["word"]["label"]
    codes = [states.index(label) for label in frame["label"]]
    logits = bias + sum(known.get((name, frame[name][1]), np.zeros(len(states))) for name in FEATURES)
    assert frame["sentence"][2] == 0
    logits = logits + steps[codes[0]] + steps[:, codes[2]]
    logits = logits + sum(known.get(place, np.zeros(len(states))) for place in (linked_words.NEXT, linked_words.BEFORE))
    expected = np.exp(logits) / np.exp(logits).sum()
    beliefs = field.predict_proba(linked_words.link_words(frame))["word"]["label"]
    assert beliefs[1] == pytest.approx(expected, abs=1e-9)


def test_rows_of_the_comparison_are_filled(monkeypatch) -> None:
    monkeypatch.setattr(linked_words, "DRAWS", 2)
    small = {key: (values[1],) for key, values in sequences.OUR_GRID.items()}
    for key, method in list(sequences.METHODS.items()):
        grid = small if key.startswith("ours") else {name: values[1:2] for name, values in method.grid.items()}
        monkeypatch.setitem(sequences.METHODS, key, sequences.Method(method.title, method.fit, grid, method.module))
    options = {"validation_sentences": 10, "test_sentences": 20}
    rows = sequences.run_sequences(["tags"], 40, report=lambda _: None, **options)
    assert [row["method"] for row in rows] == [method.title for method in sequences.METHODS.values()]
    for row in rows:
        if row["status"] == "done":
            assert 0.3 < row["words_right"] <= 1.0
            assert row["weights"] > 0
            assert "of words" in sequences.describe(row)


def test_a_tool_that_is_absent_is_said_to_be(monkeypatch) -> None:
    monkeypatch.setattr(sequences, "installed", lambda module: module != "pycrfsuite")
    rows = sequences.run_sequences(["tags"], 20, methods=["crfsuite"], report=lambda _: None)
    assert rows[0]["status"] == "not installed: pycrfsuite"
    assert "not installed" in sequences.describe(rows[0])


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="no such name: nobody"):
        sequences.run_sequences(methods=["nobody"])


def test_letters_of_a_word_are_labeled_by_its_hyphens() -> None:
    frame = hyphenation.letter_frame(["paper", "of"], lambda word: [2] if word == "paper" else [])
    assert frame["label"].to_list() == ["none", "none", "hyphen", "none", "none", "none", "none"]
    assert frame["sentence"].to_list() == [0] * 5 + [1] * 2
    assert frame.row(2, named=True) | {"label": "", "sentence": 0} == {
        "sentence": 0,
        "word": "p",
        "suffix": "ap",
        "shape": "consonant",
        "before": "pa",
        "after": "er",
        "label": "",
    }


def test_data_that_are_not_there_are_skipped_with_the_reason(monkeypatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(hyphenation, "installed", lambda module: False)
    assert sequences.run_sequences(["hyphenation"], 20, report=lines.append) == []
    assert lines == ["hyphenation: not installed: pyphen"]


def test_the_standard_error_of_a_difference_is_that_of_drawing_sentences_again() -> None:
    rng = np.random.default_rng(0)
    words = rng.integers(3, 12, 400)
    ours, theirs = rng.binomial(words, 0.9), rng.binomial(words, 0.88)
    rows = [list(zip(right, words, strict=True)) for right in (ours, theirs)]
    difference, error = sequences.paired_difference(*rows)
    assert difference == (ours.sum() - theirs.sum()) / words.sum()
    drawn = rng.integers(0, 400, (2000, 400))
    again = (ours - theirs)[drawn].sum(axis=1) / words[drawn].sum(axis=1)
    assert error == pytest.approx(again.std(), rel=0.1)
    assert sequences.paired_difference(rows[0], rows[0]) == (0.0, 0.0)


def test_means_of_seeds_have_the_difference_over_all_their_sentences() -> None:
    titles = [sequences.METHODS[key].title for key in ("chain", "crfsuite")]
    costs = dict.fromkeys(sequences.MEANS, 1.0)
    right = {titles[0]: [[(3, 4)], [(2, 2)]], titles[1]: [[(2, 4)], [(2, 2)]]}
    rows = [
        {"data": "tags", "method": title, "seed": seed, "status": "done", "right": right[title][seed], **costs}
        for title in titles
        for seed in (0, 1)
    ]
    ours, theirs = sequences.summarize(rows)
    assert (ours["difference"], ours["standard_error"]) == pytest.approx((1 / 6, 1 / 9))
    assert (ours["seeds"], "difference" in theirs) == (2, False)
