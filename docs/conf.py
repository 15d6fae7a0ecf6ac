"""Sphinx: `make docs` builds into docs/_build/html, with warnings as errors."""

from __future__ import annotations

import os
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

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
# Pages link to files that are no pages: data of the reproduction, the package's own text.
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
    "min_reported_time": 0,
    "write_computation_times": False,
    "remove_config_comments": True,
}

html_theme = "pydata_sphinx_theme"
html_theme_options = {
    "show_prev_next": False,
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "header_links_before_dropdown": 4,
}
html_sidebars = {"**": []}  # the contents are in the header
html_title = "batchsvm"
html_show_sourcelink = False
