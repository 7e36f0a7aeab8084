"""A trained model behind a local web page and a JSON API (extra ``serve``)."""
