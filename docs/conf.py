"""Sphinx: `make docs` builds into docs/_build/html, with warnings as errors."""

from __future__ import annotations

import os
import re
import sys
from importlib.metadata import version as version_of
from pathlib import Path

import matplotlib

matplotlib.use("agg")
sys.path.insert(0, str(Path(__file__).parent.parent / "src"))
os.environ.pop("BATCHSVM_DATA", None)  # examples run on small data

project = "batchsvm"
author = "the batchsvm developers"
copyright = "the batchsvm developers"
version = release = version_of("batchsvm")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "gallery", "**/README.txt"]
master_doc = "index"

myst_enable_extensions = ["attrs_inline", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header", "config.cache"]

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "show_memory": False,
    "show_signature": False,
    "download_all_examples": False,
    "min_reported_time": 1e9,  # how long an example took says nothing to a reader
    "write_computation_times": False,
    "remove_config_comments": True,
    "capture_repr": (),  # what an example prints is shown, and no representation of an object
    "plot_gallery": True,
}

html_theme = "pydata_sphinx_theme"
html_theme_options = {
    "show_prev_next": False,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "header_links_before_dropdown": 7,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {
    "index": [],
    "changelog": [],
    "**": ["sidebar-nav-bs"],
}
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_title = "batchsvm"
html_show_sourcelink = False


def without_blank_ends(app, name, source):
    """A doctest ends with a blank line, which a code box need not show."""
    source[0] = re.sub(r"\n\n```\n", "\n```\n\n", source[0])


def setup(app):
    app.connect("source-read", without_blank_ends)
