"""Sphinx's configuration of these pages; `make docs` builds them."""

project = "Temper"
author = "The Temper authors"
html_title = "Temper"
html_theme = "furo"
html_show_sphinx = False
html_static_path: list[str] = []
extensions = ["myst_parser", "sphinx_copybutton"]
exclude_patterns = ["_build"]
myst_heading_anchors = 4
# Links to headings and pages are checked while the site is built; nothing is fetched.
nitpicky = True
templates_path: list[str] = []
