"""A page about one run: settings, curves, comparison, filters, largest errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import yaml
from markupsafe import Markup

from eigenformer.analysis.curves import metric_name
from eigenformer.analysis.run_report import Comparison, Example, RunReport
from eigenformer.analysis.trust import Trust
from eigenformer.config import EigenformerConfig, RunConfig, load_preset
from eigenformer.data.preparation import not_the_papers
from eigenformer.experiments.paper_tables import format_result
from eigenformer.pages.charts import Line, line_chart, scatter_chart, small_multiples
from eigenformer.pages.graph_svg import graph_svg
from eigenformer.pages.page import make_page, render
from eigenformer.pages.predictions import graph_lines
from eigenformer.targets import Target
from eigenformer.targets.base import show_number

# Settings of a network that follow from the data, or that are shown first.
_NOT_SHOWN = ("node_encoder", "edge_encoder", "out_channels", "kind")


def report_page(report: RunReport) -> str:
    """Returns the page as self-contained HTML without a script."""
    filters, phi1, phi2 = report.filters, None, None
    if filters is not None:
        phi2 = small_multiples(filters.phi2, filters.eigenvalues, "φ₂ of every layer and head")
        phi1 = small_multiples(filters.phi1, filters.scores, "φ₁ of every layer and head")
    body = render(
        "report.html",
        name=report.name,
        subtitle=_subtitle(report),
        notices=_notices(report),
        figures=_figures(report),
        comparison_hint=_comparison_hint(report),
        ranks=_ranks(report.comparison),
        curves=_curves(report),
        test=_test(report),
        missing_test=report.missing.get("test", "the model does not say what it predicts"),
        phi1=phi1,
        phi2=phi2,
        missing_filters=report.missing.get("filters", ""),
        settings=_settings(report),
        yaml=_yaml(report),
    )
    return make_page(f"{report.name} · eigenformer", body, ("page.css", "report.css"))


def _subtitle(report: RunReport) -> str:
    config = report.config
    predicted = ""
    if report.target is not None and report.target.names:
        names = report.target.names
        predicted = " · " + ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
    dataset = Path(config.data.dataset).name
    model = f"{config.model.title} · preset {config.preset}"
    return f"{dataset} · {model} · seed {config.seed}{predicted}"


def _notices(report: RunReport) -> list[str]:
    config, summary = report.config, report.summary
    notices = []
    state = summary.get("state", "not started")
    if state != "finished":
        done = summary.get("epochs", 0)
        notices.append(
            f"This run is not finished ({state}): {done} of {config.training.epochs} epochs."
        )
    if config.data.limit is not None:
        notices.append(f"Only {config.data.limit} graphs of each split were used.")
    if (size := getattr(config.data, "size", None)) is not None:
        notices.append(f"Only {size} graphs were generated.")
    if found := summary.get("differences"):
        notices.append(f"The graphs are {not_the_papers(summary['dataset'], found)}.")
    preset = load_preset(config.preset)
    full = preset.original()
    if report.comparison and config.training.epochs != full.training.epochs:
        notices.append(
            f"This run has {config.training.epochs} epochs, the paper's schedule "
            f"{full.training.epochs}: the results are not directly comparable."
        )
    if report.comparison and preset.variant_of:
        notices.append(
            f"{preset.name} is not the paper's {full.name}: {preset.described_changes()}."
        )
    if report.comparison and config.model.kind != full.model.kind:
        notices.append(
            f"The network of this run is {config.model.title}; the paper's is {full.model.title}."
        )
    elif report.comparison and config.model != preset.model:
        notices.append(f"The model differs from the preset {preset.name} in its settings.")
    return notices


def _figures(report: RunReport) -> dict[str, str]:
    summary = report.summary
    metric = metric_name(str(summary.get("metric", "metric")))
    best = summary.get("best_validation")
    return {
        f"test {metric}": _number(summary.get("test")),
        f"best validation {metric}": _number(best),
        "best epoch": _whole(summary.get("best_epoch")),
        "parameters": _whole(summary.get("parameters")),
        "seconds per epoch": _number(summary.get("seconds_per_epoch"), 1),
        "peak memory": _number(summary.get("peak_memory_mb"), 0, " MB"),
    }


def _comparison_hint(report: RunReport) -> str:
    found = report.comparison
    if found is None:
        if not isinstance(report.summary.get("test"), int | float):
            return "There is no test result yet."
        return "The paper reports no results for this data."
    better = "lower" if found.lower_is_better else "higher"
    return (
        f"{found.label}, test {found.metric}, {better} is better. This run in orange, "
        f"the paper's own models in blue, the baselines as the paper reports them in grey."
    )


def _ranks(found: Comparison | None) -> list[dict[str, Any]]:
    if found is None:
        return []
    most = max(rank.mean for rank in found.ranks)
    return [
        {
            "name": rank.name,
            "whose": rank.whose,
            "shown": format_result(rank.mean, rank.deviation, found.digits),
            "share": 100 * rank.mean / most,
        }
        for rank in found.ranks
    ]


def _curves(report: RunReport) -> dict[str, Markup]:
    rows = report.metrics
    if not rows:
        return {}

    def line(label: str, column: str) -> Line:
        values = np.array([row.get(column, np.nan) for row in rows], dtype=np.float64)
        return Line(label, np.array([row["epoch"] for row in rows], dtype=np.float64), values)

    metric = next((k[4:] for k in rows[0] if k.startswith("val_") and k != "val_loss"), "loss")
    best, value = report.summary.get("best_epoch"), report.summary.get("best_validation")
    mark = (float(best), float(value)) if best and isinstance(value, int | float) else None
    rate = [line("at the end of the epoch", "learning_rate")]
    charts = {
        "Loss": line_chart(_pair(line, "loss"), "epoch", "loss"),
        metric_name(metric): line_chart(_pair(line, metric), "epoch", metric_name(metric), mark),
        "Learning rate": line_chart(rate, "epoch", "learning rate"),
    }
    # A regression's loss in the targets' own units equals its metric, and is shown only once.
    if metric == "mae" and all(row.get("val_loss") == row.get("val_mae") for row in rows):
        del charts["Loss"]
    return charts


def _pair(line: Any, name: str) -> list[Line]:
    return [line("training", f"train_{name}"), line("validation", f"val_{name}")]


def _test(report: RunReport) -> dict[str, Any] | None:
    if report.test is None or report.target is None:
        return None
    pairs, hint = report.test.pairs, ""
    known = report.test.errors[~np.isnan(report.test.errors)]
    if len(known):
        median, tenth = np.quantile(known, [0.5, 0.9])
        hint = (
            f"Of {len(known)} test graphs, half have a {report.target.error_name} below "
            f"{show_number(median)}, nine "
            f"of ten below {show_number(tenth)}. The largest:"
        )
    return {
        "scatter": None if pairs is None else scatter_chart(pairs, "true", "predicted"),
        "hint": hint,
        "trust": _trust(report.test.trust),
        "examples": [_example(report.target, example) for example in report.test.examples],
    }


def _trust(trust: Trust) -> dict[str, Markup]:
    """Draws what the model promises beside what came true."""
    charts = {}
    for found, caption, promised, measured in (
        (trust.coverage, "Intervals that contain the truth", "level", "share of test graphs"),
        (trust.frequencies, "Probabilities that came true", "probability", "frequency"),
    ):
        if found is not None:
            ends = np.array([0.0, 1.0])
            lines = [Line(measured, found[:, 0], found[:, 1]), Line("ideal", ends, ends)]
            charts[caption] = line_chart(lines, promised, caption)
    return charts


def _example(target: Target, example: Example) -> dict[str, Any]:
    marked = target.wrong(example.prediction, example.truth)
    lines = graph_lines(target, example.prediction, example.truth)
    if len(marked):
        lines = [f"{len(marked)} of {len(example.prediction)} nodes wrong (marked)"]
    name = example.view.name
    return {
        "name": name,
        "index": example.index,
        "error": example.error,
        "lines": lines,
        "drawing": graph_svg(example.view.drawing, name, marked=set(marked.tolist())),
    }


def _settings(report: RunReport) -> dict[str, str]:
    training, summary = report.config.training, report.summary
    graphs = summary.get("graphs") or {}
    versions = summary.get("versions") or {}
    return {
        "graphs": ", ".join(f"{name} {count}" for name, count in graphs.items()),
        **_network(report.config),
        "batch size": str(training.batch_size),
        "learning rate": f"{training.learning_rate:g}, warm-up {training.warmup_epochs:g} epochs",
        "weight decay": f"{training.weight_decay:g}",
        "epochs": f"{summary.get('epochs', 0)} of {training.epochs}",
        "precision, threads": f"{report.config.precision}, {summary.get('threads', '-')}",
        "started": str(summary.get("started", "-")),
        "revision": str(summary.get("git_revision") or "-"),
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }


def _yaml(report: RunReport) -> str:
    """Returns all settings. Paths are cut to file names, because the page may be shared."""
    config = report.config.to_dict()
    config["data"]["dataset"] = Path(report.config.data.dataset).name
    if report.config.start is not None:
        config["start"] = Path(report.config.start).name
    return yaml.safe_dump(config, sort_keys=False, allow_unicode=True)


def _network(config: RunConfig) -> dict[str, str]:
    model = config.model
    if not isinstance(model, EigenformerConfig):
        shown = ("kind", *(name for name in model.to_dict() if name not in _NOT_SHOWN))
        return {name.replace("_", " "): str(getattr(model, name)) for name in shown}
    return {
        "layers × heads": f"{model.layers} × {model.heads}",
        "width d, φ width p": f"{model.hidden_dim}, {model.phi_width}",
        "feature attention": "yes" if model.feature_attention else "no",
        "dropout, attention dropout": f"{model.dropout:g}, {model.attention_dropout:g}",
        "frequencies in training": _frequencies(model, config.data.num_frequencies),
    }


def _frequencies(model: EigenformerConfig, lowest: int | None) -> str:
    part = "all" if lowest is None else f"the lowest {lowest}"
    if model.frequency_fraction == 1:
        return part
    return f"{part}, {100 * model.frequency_fraction:g} % sampled as {model.frequency_draw}"


def _number(value: Any, digits: int = 4, unit: str = "") -> str:
    known = isinstance(value, int | float) and np.isfinite(value)
    return f"{value:.{digits}f}{unit}" if known else "–"


def _whole(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else "–"
