"""Self-contained HTML pages: they work offline and run no script except their own."""

from eigenformer.pages.explain import explain_page, explain_remark
from eigenformer.pages.page import save_page
from eigenformer.pages.report import report_page

__all__ = ["explain_page", "explain_remark", "report_page", "save_page"]
