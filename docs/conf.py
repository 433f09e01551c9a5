"""Sphinx reads the pages with MyST, and the public names from the package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

import spacy_elmo

project = "spacy-elmo"
author = "the spacy-elmo developers"
copyright = f"2026, {author}"
version = release = spacy_elmo.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "spacy_docstrings",
    "registered",
    "drawn",
]
exclude_patterns = ["_build", "_extensions"]
myst_heading_anchors = 3
suppress_warnings = ["myst.strikethrough"]
add_module_names = False
autodoc_typehints = "none"  # the docstrings have the types
default_role = "code"  # docstrings are Markdown
smartquotes_action = "D"  # dashes alone: quotes stand for themselves
highlight_language = "none"

html_theme = "furo"
html_title = f"spacy-elmo {version}"
html_show_sphinx = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["wide.css"]
