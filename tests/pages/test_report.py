"""The page on a run: every section, or why it is not there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eigenformer.analysis.errors import GraphErrors
from eigenformer.analysis.run_report import Comparison, Rank, RunReport, report_run
from eigenformer.pages import report_page
from tests.pages.test_page import EVIL, _Tags


@pytest.fixture(scope="module")
def report(run: Path) -> RunReport:
    return report_run(run, examples=2)


def test_every_section_is_there(report: RunReport) -> None:
    page = report_page(report)
    assert page.count('<figure class="example">') == 2
    assert page.count('class="multiples"') == 2
    # Loss, metric, learning rate, true and predicted, coverage.
    assert page.count('class="chart"') == 5
    assert "Intervals that contain the truth" in page
    assert "Probabilities that came true" not in page
    assert f"{report.summary['test']:.4f}" in page
    assert "The paper reports no results for this data." in page
    assert "phi_width: 4" in page
    assert "dataset: molecules.csv" in page  # no path of this machine
    assert "not finished" not in page


def test_the_run_stands_out_among_the_papers_models(report: RunReport) -> None:
    ranks = (Rank("GPS", 0.07, 0.004, "baseline"), Rank("this run", 0.14, None, "ours"))
    config = report.config.replace(preset="zinc")
    comparison = Comparison("ZINC", "MAE", True, 3, ranks)
    page = report_page(replace(report, config=config, comparison=comparison))
    assert "0.070 ± 0.004" in page
    assert '<tr class="ours"><th scope="row">this run</th><td class="figure">0.140</td>' in page
    assert "3 epochs, the paper&#39;s schedule 2000" in page
    assert "differs from the preset zinc" in page


def test_missing_parts_say_why(report: RunReport) -> None:
    missing = {"filters": "no <weights>", "test": "no data"}
    summary = {"state": "interrupted", "epochs": 2}
    part = replace(report, filters=None, test=None, missing=missing, summary=summary, metrics=[])
    page = report_page(part)
    assert "Not shown: no &lt;weights&gt;" in page
    assert "Not shown: no data" in page
    assert "This run is not finished (interrupted): 2 of 3 epochs." in page
    assert "No epoch is recorded yet." in page
    assert "There is no test result yet." in page


def test_names_stay_texts(report: RunReport) -> None:
    assert report.test is not None
    example = report.test.examples[0]
    hostile = replace(example, view=replace(example.view, name=EVIL))
    test = replace(report.test, examples=(hostile,))
    parser = _Tags()
    parser.feed(report_page(replace(report, name=EVIL, test=test)))
    assert "img" not in parser.tags
    assert parser.tags.count("script") == 1
    assert parser.title.startswith(EVIL)


def test_errors_that_are_unknown_are_no_obstacle(report: RunReport) -> None:
    assert report.test is not None
    nothing = replace(report.test, errors=np.full(3, np.nan), pairs=None, examples=())
    assert "The largest" not in report_page(replace(report, test=nothing))
    assert GraphErrors((), (), np.zeros(0)).worst(3) == []
