"""The API and the pages: right answers, and a reason in JSON for everything else."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from eigenformer.config import InputFormat
from eigenformer.data.errors import DataError
from eigenformer.limits import Limits
from eigenformer.models.ensemble import Ensemble
from eigenformer.targets import Calibration, ClassTarget, LabelTarget
from eigenformer.training.found import Found
from eigenformer.training.prediction_form import PredictionForm
from tests.serving.samples import EVIL, tiny_model

SMILES = ["CCO", "C1CC", "", "c1ccccc1O", "CC(=O)Nc1ccc(O)cc1"]
CSV = {"Content-Type": "text/csv"}


def _post(client, smiles, **query):
    return client.post("/api/predict", json={"smiles": smiles}, params=query)


def _table(client, text, **query):
    data = text if isinstance(text, bytes) else text.encode()
    return client.post("/api/table", content=data, params=query, headers=CSV)


def test_predictions_keep_their_place(client):
    answer = _post(client, SMILES).json()
    assert (answer["model"], answer["columns"]) == ("tiny", [])
    rows = answer["rows"]
    assert [row["smiles"] for row in rows] == SMILES
    assert [row["reason"] for row in rows] == [
        None,
        "'C1CC': invalid SMILES",
        "the row is empty",
        None,
        None,
    ]
    assert [row["values"] is None for row in rows] == [False, True, True, False, False]
    expected = tiny_model().predict([SMILES[0], *SMILES[3:]])[:, 0].tolist()
    found = [row["values"] for row in rows if row["values"]]
    assert [each["predicted_logp"] for each in found] == pytest.approx(expected, abs=1e-5)
    for each in found:  # the 19th of 20 scores is 0.19
        assert each["high_logp"] - each["predicted_logp"] == pytest.approx(0.19)
        assert each["predicted_logp"] - each["low_logp"] == pytest.approx(0.19)


def test_a_table_keeps_its_columns(client):
    text = 'name,smiles,note\na,CCO,"x, y"\nb,C1CC,\nc,CC\n'
    answer = _table(client, text).json()
    assert answer["columns"] == ["name", "note"]
    rows = answer["rows"]
    assert [row["cells"] for row in rows] == [["a", "x, y"], ["b", ""], ["c", ""]]
    assert [row["smiles"] for row in rows] == ["CCO", "C1CC", "CC"]
    assert [row["reason"] for row in rows][1:] == [
        "'C1CC': invalid SMILES",
        "2 cells, the header has 3",
    ]
    written = _table(client, text, format="csv")
    assert written.headers["content-type"] == "text/csv; charset=utf-8"
    header, *cells = csv.reader(io.StringIO(written.text))
    values = ["predicted_logp", "low_logp", "high_logp"]
    assert header == ["name", "smiles", "note", *values, "reason"]
    assert cells[0][:3] == ["a", "CCO", "x, y"]
    assert float(cells[0][3]) == pytest.approx(rows[0]["values"]["predicted_logp"])
    assert cells[1] == ["b", "C1CC", "", "", "", "", "'C1CC': invalid SMILES"]


def test_smiles_as_csv(client):
    lines = list(csv.reader(io.StringIO(_post(client, ["CC", "x"], format="csv").text)))
    assert lines[0] == ["smiles", "predicted_logp", "low_logp", "high_logp", "reason"]
    assert lines[2] == ["x", "", "", "", "'x': invalid SMILES"]


def test_another_column_and_another_delimiter(client):
    text = "molecule;id\nCCO;1\n"
    refused = _table(client, text)
    assert refused.status_code == 422
    assert "the table, line 1: column 'smiles': unknown" in refused.json()["detail"]
    row = _table(client, text, smiles="molecule").json()["rows"][0]
    assert (row["smiles"], row["cells"], row["reason"]) == ("CCO", ["1"], None)


def test_nothing_is_an_answer_as_well(client):
    assert _post(client, []).json()["rows"] == []
    assert _table(client, "smiles\n").json()["rows"] == []


def test_many_requests_at_once_get_their_own_answers(client):
    chains = ["C" * n for n in range(1, 25)]
    expected = tiny_model().predict(chains)[:, 0].tolist()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda text: _post(client, [text]).json(), chains))
    found = [answer["rows"][0]["values"]["predicted_logp"] for answer in answers]
    assert found == pytest.approx(expected, abs=1e-5)


def test_the_model_describes_itself(client):
    told = client.get("/api/model").json()
    assert told["values"] == ["predicted_logp", "low_logp", "high_logp"]
    assert (told["level"], told["layers"], told["heads"], told["needed"]) == (0.9, 1, 8, [])


def test_a_model_without_intervals(connect):
    client = connect(calibration=Calibration())
    assert client.get("/api/model").json()["level"] is None
    assert list(_post(client, ["CC"]).json()["rows"][0]["values"]) == ["predicted_logp"]
    with pytest.raises(ValueError, match="was not calibrated"):
        connect(calibration=Calibration(), level=0.8)


def test_an_ensemble_has_a_spread_and_shows_its_first_member(connect, tiny):
    model = Ensemble([tiny.model, tiny.model], [tiny.target, tiny.target])
    client = connect(model=model.eval())
    assert _post(client, ["CC"]).json()["rows"][0]["values"]["spread_logp"] == 0
    assert "the first of 2 members" in client.get("/explain", params={"smiles": "CC"}).text


@pytest.mark.parametrize(
    ("target", "values", "expected"),
    [
        (
            ClassTarget(num_outputs=2, names=("1", "2")),
            [0.25, 0.75],
            {"predicted_class": "2", "probability_1": 0.25, "probability_2": 0.75, "classes": "2"},
        ),
        (
            LabelTarget(names=("toxic",)),
            [0.5],
            {"probability_toxic": 0.5, "answers_toxic": "no or yes"},
        ),
    ],
)
def test_words_stay_words(target, values, expected):
    import numpy as np

    form = PredictionForm(target, False, np.array([0.6]))
    assert form.values(Found(np.array([values]))) == expected
    assert form.values(Found.none("why")) is None


def test_a_model_that_needs_more_than_smiles(connect, tiny):
    descriptors = replace(tiny.input_format, descriptors=("temperature",))
    client = connect(input_format=descriptors)
    assert client.get("/api/model").json()["needed"] == ["temperature"]
    refused = _post(client, ["CC"])
    assert refused.status_code == 422
    assert "needs the columns 'temperature': send a table" in refused.json()["detail"]
    assert "the model needs this descriptor" in _table(client, "smiles\nCC\n").json()["detail"]
    assert 'id="smiles"' not in client.get("/").text
    refused = client.get("/explain", params={"smiles": "CC"})
    assert (refused.status_code, refused.json()["detail"][:24]) == (422, "the model has no attenti")


def test_models_of_other_graphs_are_refused(connect, tiny):
    with pytest.raises(DataError, match="not trained on molecules from SMILES"):
        connect(input_format=InputFormat())
    with pytest.raises(DataError, match="tiny: the model makes predictions for nodes"):
        connect(target=replace(tiny.target, level="node"))


def test_a_picture_is_an_svg_document(client):
    drawn = client.get("/api/picture", params={"smiles": "CC(=O)Nc1ccc(O)cc1"})
    assert drawn.headers["content-type"] == "image/svg+xml"
    assert "default-src 'none'" in drawn.headers["content-security-policy"]
    root = ElementTree.fromstring(drawn.content)
    letters = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert letters == ["O", "N", "O"]
    refused = client.get("/api/picture", params={"smiles": EVIL})
    assert (refused.status_code, refused.headers["content-type"]) == (422, "application/json")


def test_the_heads_as_a_page_and_as_json(client):
    page = client.get("/explain", params={"smiles": "CC(=O)O"})
    assert "<h1>CC(=O)O</h1>" in page.text
    assert page.text.count("data-node=") == 4
    found = client.get("/api/attention", params={"smiles": "CCO"}).json()
    assert found["atoms"] == ["C0", "C1", "O2"]
    (layer,) = found["weights"]
    assert len(layer) == 8
    assert all(sum(row) == pytest.approx(1, abs=1e-3) for head in layer for row in head)


def test_too_many_weights(client):
    refused = client.get("/api/attention", params={"smiles": "C" * 400})
    assert refused.status_code == 413
    assert refused.json()["detail"] == "1,280,000 attention weights exceed the limit of 1,000,000"


@pytest.mark.parametrize("smiles", ["/etc/passwd", "test", "zinc", "../run", "C:\\x", "CC\0C"])
def test_a_smiles_is_never_a_path_or_a_name(client, smiles, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "CCO").write_text("smiles\nCC\n")  # a molecule with the name of a file
    assert client.get("/explain", params={"smiles": "CCO"}).status_code == 200
    for path in ("/explain", "/api/picture", "/api/attention"):
        refused = client.get(path, params={"smiles": smiles})
        assert refused.status_code == 422, path
        assert "path" not in refused.json()["detail"]
    (row,) = _post(client, [smiles]).json()["rows"]
    assert row["values"] is None


def test_pages_load_nothing_and_run_only_their_own_script(client):
    for path, script in (("/", True), ("/docs", False), ("/explain?smiles=CC", True)):
        answer = client.get(path)
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "frame-ancestors 'none'" in policy
        assert ("script-src 'sha256-" in policy) == script
        assert "'unsafe-inline'" not in policy.partition("script-src")[2]
        meta = re.search(r'Content-Security-Policy" content="([^"]*)"', answer.text)
        assert meta is not None
        assert policy == f"{meta[1]}; frame-ancestors 'none'"
        assert not re.search(r"""(src|href)=["'](?!data:|/)|@import|url\(|https?://(?!www.w3)""",
                             answer.text), path  # fmt: skip


def test_names_of_a_model_are_texts(connect, tiny):
    client = connect(name=EVIL, input_format=replace(tiny.input_format, smiles=EVIL))
    for path in ("/", "/docs", "/explain?smiles=CC"):
        text = client.get(path).text
        assert "&lt;img src=" in text
        assert "<img" not in text


def test_the_api_page_describes_every_operation(client):
    schema = client.get("/openapi.json").json()
    text = client.get("/docs").text
    for path in schema["paths"]:
        assert path in text
    assert "Why there is no prediction" in text
    assert {"/api/model", "/api/predict", "/api/table", "/api/picture", "/api/attention"} == set(
        schema["paths"]
    )


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"", 422, "body"),
        (b"{", 422, "JSON"),
        (b"\xff\xfe", 422, "JSON"),
        (b"[" * 100_000, 400, "body"),
        (b"1" * 5000, 400, "body"),
        (b'{"smiles": "CC"}', 422, "body.smiles"),
        (b'{"smiles": [1]}', 422, "body.smiles.0"),
        (b'{"smiles": ["\\ud800"]}', 422, "body.smiles.0"),
        (b'{"smiles": [], "smile": 1}', 422, "body.smile"),
        (b'{"smiles": ["' + b"C" * 100 + b'", null]}', 422, "body.smiles.1"),
    ],
)
def test_malformed_bodies(client, body, status, message):
    headers = {"Content-Type": "application/json"}
    answer = client.post("/api/predict", content=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert message in answer.json()["detail"]
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "the file is empty"),
        (b"\xff\xfes", "not UTF-8 text"),
        (b'"smiles\nCC', "a quote is not closed"),
        (b"\x1f\x8b\x08\x00", "not UTF-8 text"),
        (b"id\n1\n", "column 'smiles': unknown"),
    ],
)
def test_malformed_tables(client, text, message):
    answer = _table(client, text)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("the table")
    assert message in answer.json()["detail"]


def test_what_is_no_table_and_what_is_not_there(client):
    answer = client.post("/api/table", content=b"smiles\nCC\n")
    assert answer.status_code == 415
    assert "Content-Type: text/csv" in answer.json()["detail"]
    assert client.get("/nowhere").json() == {"detail": "Not Found"}
    assert client.get("/../../etc/passwd").status_code == 404
    wrong = client.get("/api/predict")
    assert (wrong.status_code, wrong.json()["detail"]) == (405, "Method Not Allowed")
    assert _post(client, [], form="csv").status_code == 422
    assert _post(client, [], format="xml").status_code == 422


def test_limits(connect):
    client = connect(limits=Limits(request_rows=2, request_bytes=200, atoms=5))
    for answer in (_post(client, ["C"] * 3), _table(client, "smiles\nC\nC\nC\n")):
        assert answer.status_code == 413
        advice = "3 exceeds the limit of 2 (raise it with  --limits request_rows=NUMBER)"
        assert advice in answer.json()["detail"]
    rows = _post(client, ["CCCCC", "CCCCCC"]).json()["rows"]
    assert rows[0]["reason"] is None
    assert "number of atoms: 6 exceeds the limit of 5" in rows[1]["reason"]
    for path in ("/explain", "/api/picture"):
        assert "exceeds the limit of 5" in client.get(path, params={"smiles": "CCCCCC"}).text
    assert _post(client, ["C" * 300]).status_code == 413
    pieces = client.post("/api/table", content=iter([b"smiles\n", b"C" * 300]), headers=CSV)
    assert pieces.status_code == 413  # the size was not declared
    assert "bytes in the request: 307 exceeds" in pieces.json()["detail"]


def test_a_server_that_is_busy_or_stopping_says_so(client):
    client.service.close()
    answer = _post(client, ["CC"])
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json() == {"detail": "the server is stopping"}


def test_an_error_of_ours_shows_nothing_of_it(client, monkeypatch):
    def broken(*_):
        raise RuntimeError("a secret")

    monkeypatch.setattr(client.service, "molecules", broken)
    answer = _post(client, ["CC"])
    assert (answer.status_code, answer.json()) == (500, {"detail": "internal error: RuntimeError"})


def test_any_text_gets_an_answer(client):
    """Of one client, in one test, for an application takes longer to build than to answer."""

    @settings(max_examples=60)
    @given(some.text(), some.text(alphabet="CNOcno()[]=#123@+-/\\.%\x00\ud800é"))
    def check(text, almost):
        for smiles in (text, almost):
            body = json.dumps({"smiles": [smiles]})
            headers = {"Content-Type": "application/json"}
            answer = client.post("/api/predict", content=body, headers=headers)
            assert answer.status_code in (200, 422)
            answer.json()
            data = f"smiles\n{smiles}\n".encode("utf-8", "surrogatepass")
            assert _table(client, data).status_code in (200, 422)

    check()
