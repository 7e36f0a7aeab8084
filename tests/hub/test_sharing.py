"""Models that are pushed and pulled: the same predictions, and no file that was not meant."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch

from eigenformer import TrainedModel
from eigenformer.cli import main
from eigenformer.hub import HubError, pull, push
from eigenformer.limits import Limits
from eigenformer.model_folder import EnsembleCard, write_ensemble
from tests.hub.server import Hub

MODEL = ["README.md", "model.json", "model.reference.safetensors", "model.safetensors"]


@pytest.fixture
def ensemble(run: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "ensemble"
    for name in ("one", "two"):
        shutil.copytree(run, folder / name)
    (folder / "notes.txt").write_text("mine")
    write_ensemble(folder, EnsembleCard(("one", "two")))
    return folder


def predicted(folder: Path) -> torch.Tensor:
    return TrainedModel.open(folder).predict(["CCO", "c1ccccc1O"])


def test_a_model_comes_back_from_the_hub(run: Path, hub: Hub, tmp_path: Path) -> None:
    where, names = push(run, "me/logp", endpoint=hub.url)
    assert where.startswith(f"{hub.url}/me/logp/commit/")
    assert names == sorted(hub.files["me/logp"]) == MODEL
    assert hub.private == {"me/logp": True}
    hub.files["me/logp"] |= {"evil.py": b"raise SystemExit", "last.ckpt": b"x", "a/b.bin": b"y"}
    hub.requests.clear()
    trained = pull("me/logp", tmp_path / "new" / "logp", endpoint=hub.url)
    assert trained.name == "logp"
    assert sorted(path.name for path in (tmp_path / "new" / "logp").rglob("*")) == MODEL
    assert torch.equal(predicted(tmp_path / "new" / "logp"), predicted(run))
    assert trained.reference.known
    asked = [request for request in hub.requests if "/resolve/" in request]
    assert not any(name in request for request in asked for name in ("evil", "ckpt", "b.bin"))
    assert all(hub.commit("me/logp") in request for request in asked)  # all of one commit
    assert not list((tmp_path / "new").glob(".*"))


def test_only_files_of_the_model_leave_the_machine(run: Path, hub: Hub, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    (folder / "secret.json").write_text("{}")
    (folder / "more.safetensors").write_text("")
    push(folder, "me/logp", public=True, reference=False, endpoint=hub.url)
    assert sorted(hub.files["me/logp"]) == ["README.md", "model.json", "model.safetensors"]
    assert hub.private == {"me/logp": False}
    sent = b"".join(hub.files["me/logp"].values())
    assert str(tmp_path).encode() not in sent
    assert str(run.parent).encode() not in sent


def test_an_ensemble_and_then_a_model_in_its_place(
    ensemble: Path, run: Path, hub: Hub, tmp_path: Path
) -> None:
    push(ensemble, "me/both", endpoint=hub.url)
    members = [f"{member}/{name}" for member in ("one", "two") for name in MODEL[1:]]
    assert sorted(hub.files["me/both"]) == sorted(["README.md", "ensemble.json", *members])
    assert "ensemble of 2 networks" in hub.files["me/both"]["README.md"].decode()
    trained = pull("me/both", tmp_path / "back", endpoint=hub.url)
    assert torch.equal(trained.predict(["CCO"]), TrainedModel.open(ensemble).predict(["CCO"]))
    push(run, "me/both", endpoint=hub.url)
    assert "ensemble.json" not in hub.files["me/both"]
    pull("me/both", tmp_path / "single", endpoint=hub.url)
    assert not (tmp_path / "single" / "one").exists()
    assert torch.equal(predicted(tmp_path / "single"), predicted(run))


_SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("/out", "a/b")]


@pytest.mark.parametrize("member", ["../out", *_SLOW])
def test_members_cannot_leave_their_folder(
    ensemble: Path, hub: Hub, tmp_path: Path, member: str
) -> None:
    push(ensemble, "me/both", endpoint=hub.url)
    files = hub.files["me/both"]
    files["ensemble.json"] = json.dumps({"members": [member], "format": 1}).encode()
    files[f"{member}/model.json"] = b"{}"
    with pytest.raises(HubError, match="not the name of a folder inside this one"):
        pull("me/both", tmp_path / "back", endpoint=hub.url)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ensemble"]


def test_what_cannot_be_opened_leaves_nothing(run: Path, hub: Hub, tmp_path: Path) -> None:
    push(run, "me/logp", endpoint=hub.url)
    files = hub.files["me/logp"]
    good = files["model.safetensors"]
    files["model.safetensors"] = good[:-4] + b"\0\0\0\1"
    with pytest.raises(HubError, match="me/logp/model.safetensors: its checksum does not match"):
        pull("me/logp", tmp_path / "back", endpoint=hub.url)
    with pytest.raises(HubError, match="model.safetensors: .* exceeds the limit of 1,000 .raise"):
        pull("me/logp", tmp_path / "back", limits=Limits(file_bytes=1000), endpoint=hub.url)
    files.pop("model.json")
    with pytest.raises(HubError, match="me/logp: no model here.*model.json is missing"):
        pull("me/logp", tmp_path / "back", endpoint=hub.url)
    with pytest.raises(HubError, match="me/nothing: no model here, or you may not read it"):
        pull("me/nothing", tmp_path / "back", endpoint=hub.url)
    assert not list(tmp_path.iterdir())


def test_mistakes_are_found_before_anything_is_sent(
    run: Path, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="no model here"):
        push(tmp_path, "me/logp", endpoint=hub.url)
    with pytest.raises(HubError, match="expected OWNER/NAME"):
        push(run, "logp", endpoint=hub.url)
    with pytest.raises(HubError, match="already exists"):
        pull("me/logp", tmp_path, endpoint=hub.url)
    assert not hub.requests
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r"install it with  pip install 'eigenformer\[hub\]'"):
        push(run, "me/logp", endpoint=hub.url)


def test_a_hub_that_cannot_be_reached_is_one_sentence(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    with pytest.raises(HubError, match="me/logp: the hub cannot be used: ") as found:
        pull("me/logp", tmp_path / "back", endpoint="http://127.0.0.1:9")
    assert "\n" not in str(found.value)


def test_a_folder_is_a_repository(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = (tmp_path / "a b" / "shared").as_uri()
    assert main(["push", str(run), place, "--license", "mit"]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/a b/shared: {', '.join(MODEL)}\n"
    assert main(["pull", place, str(tmp_path / "back")]) == 0
    assert "back: eigenformer, graph regression (weight)" in capsys.readouterr().out
    assert torch.equal(predicted(tmp_path / "back"), predicted(run))
    assert main(["pull", place, str(tmp_path / "x"), "--revision", "main"]) == 2
    assert "a folder has no revisions" in capsys.readouterr().err
    assert main(["pull", "file:shared", str(tmp_path / "x")]) == 2
    assert "expected an absolute path" in capsys.readouterr().err
