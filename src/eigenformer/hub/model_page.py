"""The README of a shared model, written from its card and its run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from eigenformer import __version__
from eigenformer.config import BenchmarkData, DataConfig
from eigenformer.model_folder import ModelCard, read_card, read_ensemble
from eigenformer.trained_model import TrainedModel
from eigenformer.training.run_folder import RunFolder

_HOME = "https://arxiv.org/abs/2401.17791"


def model_page(
    folder: Path, trained: TrainedModel, name: str, repository: str, license: str | None
) -> str:
    """Returns the README as Markdown, with the metadata that the hub reads.

    Args:
        folder: The model folder. Its ``summary.json``, if there is one, has the figures.
        trained: The opened model.
        name: The name of the model.
        repository: Where it will be found.
        license: The licence of the weights, if the author states one.
    """
    together = read_ensemble(folder)
    members = [folder] if together is None else [folder / name for name in together.members]
    card = read_card(members[0])
    summaries = [RunFolder(member).read_summary() for member in members]
    # The name of a file, because the path may say more than its author wants to.
    data = "" if card.data is None else Path(card.data.dataset).name
    title = card.architecture.title
    kind = title if together is None else f"ensemble of {len(members)} networks ({title})"
    about = (
        f"This {_text(kind)} predicts {_text(trained.target.describe())}. It was trained on "
        f"{_text(data)} with Eigenformer {_version(summaries[0])}."
    )
    count = sum(parameter.numel() for parameter in trained.model.parameters())
    parts = [
        _metadata(license),
        f"# {_text(name)}\n\n{about}",
        f"## Results\n\n{_results(members, summaries)}",
        f"## Data\n\n{_data(card.data, data, summaries[0])}",
        f"## Model\n\n{count:,} parameters. The settings of the architecture"
        f"{' of the first member' if together else ''}:\n\n{_settings(card.architecture)}",
    ]
    if card.training is not None:
        parts.append(
            f"The settings of its training, with seed {card.seed}:\n\n{_settings(card.training)}"
        )
    parts += [f"## Use\n\n{_use(card, repository)}", _licence(license)]
    return "\n\n".join(parts) + "\n"


def _metadata(license: str | None) -> str:
    values: dict[str, Any] = {"library_name": "eigenformer", "tags": ["graph-transformer"]}
    values["pipeline_tag"] = "graph-ml"
    if license is not None:
        values["license"] = license
    return f"---\n{yaml.safe_dump(values, sort_keys=False)}---"


def _results(members: list[Path], summaries: list[dict[str, Any]]) -> str:
    rows = []
    for member, summary in zip(members, summaries, strict=True):
        where = f"{_text(member.name)}, " if len(members) > 1 else ""
        metric, graphs = _text(summary.get("metric", "")), summary.get("graphs", {})
        found = {f"val {metric}": summary.get("best_validation")}
        tests = summary.get("test_metrics") or {metric: summary.get("test")}
        found |= {f"test {_text(key)}": value for key, value in tests.items()}
        for key, value in found.items():
            if value is not None:
                split, _, shown = key.partition(" ")
                rows.append(f"| {where}{split} | {shown} | {value:.4g} | {graphs.get(split, '')} |")
    if not rows:
        return "The folder of the model has no figures."
    text = "| split | metric | value | graphs |\n| --- | --- | --- | --- |\n" + "\n".join(rows)
    return f"{text}\n\nThe best epoch was chosen by the figure on `val`."


def _data(data: DataConfig | None, name: str, summary: Mapping[str, Any]) -> str:
    if data is None:
        return "The model does not say what it was trained on."
    kind = "benchmark" if isinstance(data, BenchmarkData) else "data"
    lines = [f"- {kind}: {_text(name)}"]
    if graphs := summary.get("graphs"):
        lines.append("- graphs: " + ", ".join(f"{_text(k)} {v}" for k, v in graphs.items()))
    told = data.to_dict()
    for key in ("split_by", "split_column", "split_seed", "fractions", "limit", "featurizer"):
        if told.get(key) not in (None, [], ()):
            lines.append(f"- {key}: {_text(told[key])}")
    return "\n".join(lines)


def _use(card: ModelCard, repository: str) -> str:
    smiles = card.input_format.featurizer is not None
    given = '["CCO"]' if smiles else "graphs"
    what = "a list of SMILES" if smiles else "a list of PyG graphs with their spectra"
    table = "molecules.csv" if smiles else "graphs"
    return (
        "```bash\npip install 'eigenformer[chem,hub]'\n"
        f"eigenformer pull {repository} model\n"
        f"eigenformer predict model {table} --out predictions.csv\n```\n\n"
        "```python\nfrom eigenformer import TrainedModel\n\n"
        f'trained = TrainedModel.open("model")\n'
        f"trained.predict({given})  # {what}\n```\n\n"
        "The files are plain tensors and JSON. Opening them runs no code that they contain."
    )


def _licence(license: str | None) -> str:
    weights = "" if license is None else f" The weights are shared under {_text(license)}."
    return (
        f"## Licence\n\nThe code of Eigenformer is under the MIT licence.{weights} The method is "
        f"that of [Graph Transformers without Positional Encodings]({_HOME})."
    )


def _settings(settings: Any) -> str:
    text = yaml.safe_dump(settings.to_dict(), sort_keys=False, allow_unicode=True)
    return f"```yaml\n{text.replace('```', '')}```"


def _version(summary: Mapping[str, Any]) -> str:
    return _text((summary.get("versions") or {}).get("eigenformer") or __version__)


def _text(value: object) -> str:
    """Returns a value as one line in which no character means anything to Markdown or HTML."""
    line = " ".join(str(value).split())
    return re.sub(r"([\\`*_{}\[\]<>()#|!~])", r"\\\1", line)
