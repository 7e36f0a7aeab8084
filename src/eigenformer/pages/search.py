"""The page on a search: how it went, and what each setting does."""

from __future__ import annotations

import numpy as np

from eigenformer.experiments.search import Search
from eigenformer.experiments.search_tables import shown
from eigenformer.pages.charts import Line, line_chart, points_chart
from eigenformer.pages.page import make_page, render


def search_page(found: Search) -> str:
    """Returns the page: the best settings, the course of the search, and every setting."""
    complete = [trial for trial in found.trials if trial.state == "complete"]
    numbers = np.array([trial.number for trial in complete], dtype=float)
    values = np.array([trial.value for trial in complete])
    best = (
        np.maximum.accumulate(values) if found.higher_is_better else np.minimum.accumulate(values)
    )
    label = f"val {found.metric}"
    course = [Line("trial", numbers, values), Line("best so far", numbers, best)]
    names = list(dict.fromkeys(name for trial in complete for name in trial.settings))
    tried = {name: [trial.settings[name] for trial in complete] for name in names}
    texts = {name: each for name, each in tried.items() if any(isinstance(v, str) for v in each)}
    charts = [
        (name, points_chart(np.array(each, dtype=float), values, name, label))
        for name, each in tried.items()
        if name not in texts
    ]
    first = found.ranked[0]
    body = render(
        "search.html",
        name=found.name,
        metric=label,
        best=first,
        settings=[(name, shown(value)) for name, value in first.settings.items()],
        counts={
            state: sum(trial.state == state for trial in found.trials)
            for state in ("complete", "pruned", "failed", "running")
        },
        course=line_chart(course, "trial", label),
        charts=charts,
        words=[(name, _best_of_each(each, found)) for name, each in texts.items()],
    )
    return make_page(f"Search on {found.name}", body, ("page.css", "report.css"))


def _best_of_each(tried: list[str], found: Search) -> list[tuple[str, int, float]]:
    """Returns each value with the number of its complete trials and the best of them."""
    complete = [trial for trial in found.trials if trial.state == "complete"]
    choose = max if found.higher_is_better else min
    rows = []
    for value in sorted(set(tried)):
        results = [t.value for t, chosen in zip(complete, tried, strict=True) if chosen == value]
        rows.append((value, len(results), choose(results)))
    return rows
