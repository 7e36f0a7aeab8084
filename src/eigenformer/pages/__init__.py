"""Self-contained HTML pages: they open without a network, and run no script but their own."""

from eigenformer.pages.explain import explain_page
from eigenformer.pages.page import save_page
from eigenformer.pages.report import report_page

__all__ = ["explain_page", "report_page", "save_page"]
