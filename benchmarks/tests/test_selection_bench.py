"""The comparison of automatic fits."""

from benchmarks import selection


def test_ours_and_a_peer_find_the_edges_of_a_small_field(monkeypatch) -> None:
    monkeypatch.setattr(selection, "VALUES", 8)
    heard: list[str] = []
    rows = selection.run_selection((20,), 1500, peers=("liblinear",), report=heard.append)
    assert [row["method"].split(",")[0] for row in rows] == ["sparsefield"] * 4 + ["liblinear per node"]
    ours, holding, peer = rows[0], rows[3], rows[-1]
    assert holding["precision"] > 0.85
    assert holding["recall"] >= ours["recall"] - 0.05
    assert ours["precision"] > 0.85
    for row in (ours, peer):
        assert row["precision"] > 0.7
        assert row["recall"] > 0.6
        assert row["seconds"] > 0
    assert ours["score"] > peer["score"] - 0.005
    assert len(heard) == 6
