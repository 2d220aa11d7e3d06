"""Linear chains at the command line: CoNLL files and tables are learned from, labeled, scored and summarized."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sparsefield import ChainCRF, load, read_conll
from sparsefield.app.cli.chain_data import ConllTokens, read_tokens
from sparsefield.app.cli.chain_options import SequenceOptions
from sparsefield.app.tables.read_options import ReadOptions

WORDS = {"D": ["the", "a"], "N": ["dog", "run", "walk"], "V": ["sees", "run", "walk"]}
FOLLOWS = {"D": "N", "N": "VVD", "V": "DN"}
QUICK = ("--l1", "0.5", "--l2", "0.1", "--no-check", "--jobs", "1")


def draw(rng: np.random.Generator) -> list[tuple[str, str]]:
    labels = ["D"]
    while len(labels) < 5:
        labels.append(str(rng.choice(list(FOLLOWS[labels[-1]]))))
    return [(str(rng.choice(WORDS[label])), label) for label in labels]


def sentences(count: int, seed: int) -> list[list[tuple[str, str]]]:
    rng = np.random.default_rng(seed)
    return [draw(rng) for _ in range(count)]


def as_conll(drawn: list[list[tuple[str, str]]], separator: str = " ") -> str:
    lines = ["\n".join(f"{word}{separator}{word[-1]}{separator}{label}" for word, label in one) for one in drawn]
    return "# a comment\n-DOCSTART- -X- O\n\n" + "\n\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.conll").write_text(as_conll(sentences(60, 0)))
    (tmp_path / "test.conll").write_text(as_conll(sentences(20, 1)))
    return tmp_path


@pytest.fixture
def chain(folder: Path, run) -> Path:
    words = ("--chain", "--names", "word,last,tag", "--window", "word=1")
    assert run("fit", folder / "train.conll", "-o", folder / "m", *words, *QUICK).code == 0
    return folder / "m"


def test_a_chain_learns_what_the_estimator_learns_from_the_same_attributes(folder: Path, chain: Path) -> None:
    found = read_conll(folder / "train.conll", ("word", "last", "tag"))
    X = []
    for tokens in found.tokens("word", "last"):
        words = [token["word"] for token in tokens]
        for k, token in enumerate(tokens):
            token |= {"(first)": True} if k == 0 else {"word[-1]": words[k - 1]}
            token |= {"(last)": True} if k == len(words) - 1 else {"word[+1]": words[k + 1]}
        X.append(tokens)
    wanted = ChainCRF(l1=0.5, l2=0.1, n_jobs=1, random_state=0).fit(X, found.column("tag"))
    saved = load(chain)
    assert set(saved.attributes_) == set(wanted.attributes_)
    assert saved.n_features_ == wanted.n_features_
    assert saved.objective_ == pytest.approx(wanted.objective_, rel=1e-4)


def test_predict_writes_the_file_with_other_labels_and_the_same_other_lines(folder: Path, chain: Path, run) -> None:
    data, output = folder / "test.conll", folder / "out.conll"
    done = run("predict", chain, data, "-o", output)
    assert (done.code, "wrote" in done.out) == (0, True)
    assert "'tag' are replaced" in done.err
    before, after = data.read_text().split("\n"), output.read_text().split("\n")
    assert [line.rpartition(" ")[0] for line in before] == [line.rpartition(" ")[0] for line in after]
    assert before[:3] == after[:3]
    labels = read_conll(output).column("2")
    truth = read_conll(data).column("2")
    right = np.mean([a == b for one, two in zip(truth, labels, strict=True) for a, b in zip(one, two, strict=True)])
    assert right > 0.8


def test_labels_are_added_to_a_file_that_has_none(folder: Path, chain: Path, run) -> None:
    data = folder / "test.conll"
    run("predict", chain, data, "-o", folder / "full.conll")
    lines = [line.rpartition(" ")[0] if line.count(" ") == 2 else line for line in data.read_text().split("\n")]
    (folder / "bare.conll.gz").write_bytes(gzip.compress("\n".join(lines[3:]).encode()))
    done = run("predict", chain, folder / "bare.conll.gz", "-o", folder / "added.conll.gz")
    assert (done.code, "Note" in done.err) == (0, False)
    added = gzip.decompress((folder / "added.conll.gz").read_bytes()).decode()
    assert added.split("\n") == (folder / "full.conll").read_text().split("\n")[3:]


def test_probabilities_of_a_token_add_up_to_one(folder: Path, chain: Path, run) -> None:
    assert run("predict", chain, folder / "test.conll", "-o", folder / "p.csv", "--proba").code == 0
    table = pl.read_csv(folder / "p.csv")
    assert table.columns == ["sequence", "token", "label", "probability"]
    sums = table.group_by("sequence", "token").agg(pl.col("probability").sum())["probability"]
    assert len(sums) == 100
    assert np.allclose(sums, 1.0)


def test_evaluate_scores_a_saved_chain(folder: Path, chain: Path, run) -> None:
    data = folder / "test.conll"
    shown = run("evaluate", data, "--model", chain)
    found = json.loads(run("evaluate", data, "--model", chain, "--json").out)
    saved = load(chain)
    run("predict", chain, data, "-o", folder / "out.conll")
    labels, truth = ([y for one in read_conll(path).column("2") for y in one] for path in (folder / "out.conll", data))
    assert found["token_accuracy"] == np.mean([a == b for a, b in zip(labels, truth, strict=True)])
    assert (found["sequences"], found["tokens"], found["f1"]) == (20, 100, None)
    assert {score["name"] for score in found["labels"]} == set(saved.classes_)
    assert f"{found['token_accuracy']:.2%} of 100 tokens" in shown.out
    assert "precision" in shown.out


def test_evaluate_labels_every_sequence_by_a_chain_fitted_without_it(folder: Path, run) -> None:
    words = ("--chain", "--folds", "3", "--l1", "0.5", "--l2", "0.1", "--json", "--jobs", "1")
    found = json.loads(run("evaluate", folder / "train.conll", *words).out)
    assert (found["sequences"], found["tokens"], len(found["results"])) == (60, 300, 3)
    shares = [part["token_accuracy"] * part["tokens"] for part in found["results"]]
    assert sum(shares) / 300 == pytest.approx(found["token_accuracy"])
    assert found["token_accuracy"] > 0.8


def test_entities_are_scored_by_type(folder: Path, run) -> None:
    text = "\n\n".join("in O\nNew B-LOC\nYork I-LOC\nsaid O\nAnn B-PER" for _ in range(6))
    (folder / "ner.conll").write_text(text)
    assert run("fit", folder / "ner.conll", "-o", folder / "ner", "--chain", *QUICK).code == 0
    found = json.loads(run("evaluate", folder / "ner.conll", "--model", folder / "ner", "--json").out)
    assert (found["f1"], found["precision"], found["recall"]) == (1.0, 1.0, 1.0)
    assert [(one["name"], one["entities"]) for one in found["entities"]] == [("LOC", 6), ("PER", 6)]
    assert "Entities: precision 100.00%" in run("evaluate", folder / "ner.conll", "--model", folder / "ner").out


def test_info_summarizes_a_chain(folder: Path, chain: Path, run) -> None:
    shown = run("info", chain).out
    for words in ("60 sequences with 300 tokens", "Labels: D, N, V.", "word[-1]", "Strongest transitions"):
        assert words in shown
    found = json.loads(run("info", chain, "--json").out)
    assert found["estimator"] == "ChainCRF"
    assert found["record"]["source"]["templates"] == ["word[-1]", "word", "word[+1]", "last"]
    assert len(found["state_features"]) + len(found["transition_features"]) == load(chain).n_features_


def test_fit_selects_penalties_and_checks_on_held_out_sequences(folder: Path, run) -> None:
    words = ("--chain", "--jobs", "1", "--l2", "0.1")
    done = run("fit", folder / "train.conll", "-o", folder / "m", *words)
    assert "Selected l1 = " in done.out
    assert "6 sequences are labeled right" in done.out
    found = json.loads(run("fit", folder / "train.conll", "-o", folder / "m", *words, "--json").out)
    assert found["held_out"]["sequences"] == 6
    assert found["l1"] == load(folder / "m").l1_


def test_a_table_with_a_column_of_sequences_is_learned_from_and_labeled(folder: Path, run) -> None:
    rows = [(f"s{s % 7}.{s}", w, len(w), y) for s, one in enumerate(sentences(60, 0)) for w, y in one]
    table = pl.DataFrame(rows, schema=["sentence", "word", "length", "tag"], orient="row")
    table = table.with_columns(word=pl.when(pl.col("word") == "the").then(pl.lit(".")).otherwise("word"))
    table.sample(fraction=1.0, shuffle=True, seed=0).sort("length", maintain_order=True).write_csv(folder / "t.csv")
    words = ("--chain", "--sequence", "sentence", "--label", "tag")
    assert run("fit", folder / "t.csv", "-o", folder / "m", *words, *QUICK).code == 0
    assert {"length", "word=."} <= set(load(folder / "m").attributes_)
    assert run("predict", folder / "m", folder / "t.csv", "-o", folder / "out.csv").code == 0
    read, written = pl.read_csv(folder / "t.csv"), pl.read_csv(folder / "out.csv")
    assert read.drop("tag").equals(written.drop("tag"))
    assert set(written["tag"]) <= {"D", "N", "V"}
    read.drop("tag").write_csv(folder / "bare.csv")
    assert run("predict", folder / "m", folder / "bare.csv", "-o", folder / "added.csv").code == 0
    assert pl.read_csv(folder / "added.csv").equals(written)


def test_numbers_of_another_table_must_be_numbers(folder: Path, run) -> None:
    (folder / "t.csv").write_text("s,x,y\n" + "".join(f"{k // 3},{k % 3 + 0.5},{'ab'[k % 2]}\n" for k in range(30)))
    words = ("--chain", "--sequence", "s", "--label", "y")
    assert run("fit", folder / "t.csv", "-o", folder / "m", *words, *QUICK).code == 0
    (folder / "odd.csv").write_text("s,x\n1,0.5\n1,many\n")
    run("predict", folder / "m", folder / "odd.csv", "-o", folder / "out.csv").one_error("'x'", "not numbers", "'many'")


def test_labels_that_are_missing_are_summed_out_and_not_scored(folder: Path, run) -> None:
    text = (folder / "train.conll").read_text().replace("dog g N", "dog g _")
    (folder / "part.conll").write_text(text)
    words = ("--chain", "--missing", "_", *QUICK)
    done = run("fit", folder / "part.conll", "-o", folder / "m", *words)
    assert "tokens without a label" in done.err
    assert load(folder / "m").classes_.tolist() == ["D", "N", "V"]
    found = json.loads(run("evaluate", folder / "part.conll", "--model", folder / "m", "--json").out)
    assert found["tokens"] == 300 - text.count(" _\n")


def test_sequences_without_a_known_label_are_not_counted(tmp_path: Path, run) -> None:
    data, model = tmp_path / "scarce.conll", tmp_path / "m"
    data.write_text("a X\n\nb _\n\nc _\n")
    words = ("--chain", "--missing", "_", "--l1", "0.5", "--l2", "0.1", "--jobs", "1")
    done = run("fit", data, "-o", model, *words)
    assert "No check: it needs two sequences with a known label" in done.err
    assert "nan" not in done.out
    assert "100.00% of 1 token and 100.00% of 1 sequence are" in run("evaluate", data, "--model", model).out
    refused = run("evaluate", data, "--chain", "--missing", "_", "--folds", "3")
    assert (refused.code, "there is 1 among 3 sequences: label more" in refused.err) == (2, True)


def test_sequences_with_known_labels_are_divided_among_the_folds_and_held_out(tmp_path: Path, run) -> None:
    data = tmp_path / "part.conll"
    data.write_text("\n\n".join(f"{'ab'[k % 2]} {'XY'[k % 2] if k < 4 else '_'}" for k in range(20)))
    words = ("--chain", "--missing", "_", "--l1", "0", "--l2", "0.1", "--jobs", "1", "--json")
    found = json.loads(run("evaluate", data, *words, "--folds", "4").out)
    assert [part["sequences"] for part in found["results"]] == [1, 1, 1, 1]
    assert (found["sequences"], found["tokens"], found["sequence_accuracy"]) == (4, 4, 1.0)
    held = json.loads(run("fit", data, "-o", tmp_path / "m", *words).out)["held_out"]
    assert (held["sequences"], held["tokens"]) == (1, 1)


def test_columns_may_look_like_templates(tmp_path: Path, run) -> None:
    rows = [f"{k // 4},{'ab'[k % 2]},{'cd'[k // 2 % 2]},{'ef'[k % 2]},{'XY'[k % 2]}" for k in range(24)]
    (tmp_path / "t.csv").write_text("s,R & D,w,w[+1],y\n" + "\n".join(rows) + "\n")
    words = ("--chain", "--sequence", "s", "--label", "y", "--window", "1", "--spelling", "R & D")
    assert run("fit", tmp_path / "t.csv", "-o", tmp_path / "m", *words, *QUICK).code == 0
    names = {name.rpartition("=")[0] for name in load(tmp_path / "m").attributes_}
    assert {'"R & D"[-1]', '"R & D":lower', "w", "w[+1]", '"w[+1]"', '"w[+1]"[+1]'} <= names
    assert run("evaluate", tmp_path / "t.csv", "--model", tmp_path / "m").code == 0


REFUSED = {
    "fit train.conll -o new --label 2": "add --chain",
    "fit train.conll -o new --chain --latent a=2 --stream": "--latent and --stream cannot be used with a linear chain",
    "fit train.conll -o train.conll --chain": "one of the files that are read",
    "fit train.conll -o new --chain --label tag": "columns: 0, 1, 2",
    "fit train.conll -o new --chain --names a,b": "--names has 2 names",
    "fit train.conll -o new --chain --window q=1": "got 'q=1'",
    "fit train.conll -o new --chain --attribute q[-1]": "names the column 'q'",
    "fit train.conll -o new --chain --attribute 0:upper": "the form 'upper'",
    "fit train.conll -o new --chain --spelling q": "--spelling names the column 'q'",
    "fit train.conll -o new --chain --observed 2": "--observed names the column '2'",
    "fit train.conll -o new --chain --nominal foo": "--nominal names the column 'foo'",
    "fit train.conll -o new --chain --observed 0 --id 0": "--id leaves no input, since it names 0",
    "fit train.conll -o new --chain --sheet a": "--sheet is for tables",
    "fit train.conll -o new --chain --sequence 0 --names a,b,c": "remove one of them",
    "fit table.csv -o new --chain --sequence q --label b": "no column 'q'",
    "fit table.csv -o new --chain --sequence a": "--label is needed",
    "fit empty.conll -o new --chain": "no token",
    "fit uneven.conll -o new --chain": "line 2 has 1 columns",
    "fit absent.conll -o new --chain": "no such file",
    "fit train.conll -o new --chain --missing D,N,V": "has no label",
    "predict m test.conll -o test.conll": "one of the files that are read",
    "predict m table.csv -o new": "the model was learned from 3: word, last, tag",
    "predict m test.conll -o new --fill mean": "--fill cannot be used",
    "evaluate test.conll --model m --folds 3": "--folds cannot be used with --model",
    "evaluate test.conll --model table.csv": "not a complete",
    "evaluate test.conll --model nosuch": "nosuch: there is no such file",
    "evaluate test.conll --model .": "this is a folder",
    "evaluate absent.conll --model m": "no such file",
    "evaluate test.conll --chain --folds 30": "there are 20 among 20 sequences: give fewer folds",
    "report m -o new.html": "holds a ChainCRF",
    "predict python test.conll -o new": "fitted in Python",
}


@pytest.fixture
def refusing(folder: Path, chain: Path, monkeypatch) -> Path:
    (folder / "table.csv").write_text("a,b\n1,x\n")
    (folder / "empty.conll").write_text("\n")
    (folder / "uneven.conll").write_text("a b\nc\n")
    ChainCRF(l1=0.0, l2=1.0, n_jobs=1).fit([[{"a": True}, {"b": True}]], [["x", "y"]]).save(folder / "python")
    monkeypatch.chdir(folder)
    return folder


def test_mistakes_get_one_line_and_write_nothing(refusing: Path, run) -> None:
    for line, words in REFUSED.items():
        run(*line.split(" ")).one_error(words)
    assert not (refusing / "new").exists()


def test_debug_prints_the_traceback_of_a_refusal(refusing: Path, run) -> None:
    assert "Traceback" in run("fit", "empty.conll", "-o", "new", "--chain", "--debug").err


def test_conll_columns_are_between_blanks_or_tabs_and_other_spaces_belong_to_words(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes("1\u00a0000  N\r\na\u2028b   V \r\n".encode())
    tokens = read_tokens(tmp_path / "f", ReadOptions(), SequenceOptions(chain=True))
    assert isinstance(tokens, ConllTokens)
    assert tokens.cells("0") == [["1\u00a0000", "a\u2028b"]]
    written = tokens.text.with_column([["X", "Y"]], 1).encode()
    assert written == "1\u00a0000  X\r\na\u2028b   Y \r\n".encode()


def test_standard_input_and_output_are_files_of_sequences(folder: Path, chain: Path, run, monkeypatch) -> None:
    class Input:
        buffer = io.BytesIO((folder / "test.conll").read_bytes())

        @staticmethod
        def fileno() -> int:
            raise OSError

    run("predict", chain, folder / "test.conll", "-o", folder / "out.conll")
    monkeypatch.setattr("sys.stdin", Input)
    done = run("predict", chain, "-", "-o", "-")
    assert done.out == (folder / "out.conll").read_text()
    assert "wrote to standard output" in done.err
