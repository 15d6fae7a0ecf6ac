"""The pages here are doctested; what Sphinx runs or makes is not (tests/test_docs.py runs it)."""

collect_ignore = ["conf.py", "gallery", "examples", "_build", "generated", "images"]
