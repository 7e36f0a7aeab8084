"""Self-contained HTML pages: they open without a network, and run no script but their own."""

from eigenformer.pages.explain import explain_page
from eigenformer.pages.page import save_page

__all__ = ["explain_page", "save_page"]
