"""scikit-learn's own tests of LinearSVC and LinearSVR, run with our estimators.

The tests are those of the scikit-learn that is installed; `sklearn_adapter.py` puts our estimators
in the place of theirs.  Every test that fails is listed below with its reason, and a failure that
is not listed, like a listed test that passes, fails here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import sklearn

HERE = Path(__file__).parent
VERSION = tuple(int(part) for part in sklearn.__version__.split(".")[:2])

L1 = "it uses the L1 penalty, which we do not have"
PAIRS = "it uses Crammer and Singer's problem of all classes at once, which we do not have"
SVM = {
    "test_linearsvc_parameters*-l1-*": L1,
    "test_linearsvc_parameters*-False-l2-hinge*": "we have no `dual`, which it wants refused",
    "test_linearsvc[*": L1,
    "test_dense_liblinear_intercept_handling": L1,
    "test_linearsvm_liblinear_sample_weight*-params0*": L1,
    "test_linearsvc_crammer_singer*": PAIRS,
    "test_crammer_singer_binary*": PAIRS,
    "test_linear_svm_convergence_warnings*": "it expects the words of LIBLINEAR's warning",
}


def outcomes_of(tmp_path, module):
    """The names of the tests by their outcome."""
    path = tmp_path / "outcomes.json"
    environment = os.environ | {
        "OUTCOMES": str(path), "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path]),
    }  # fmt: skip
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "sklearn_adapter",
         "-c", os.devnull, "--pyargs", module],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode in (0, 1), ran.stdout[-2000:] + ran.stderr[-2000:]
    found = json.loads(path.read_text())
    names = {"passed": set(), "failed": set()}
    for name, (outcome, _) in found.items():
        names.setdefault(outcome, set()).add(name)
    return names


def matches(name, pattern):
    return fnmatchcase(name, pattern.replace("[", "[[]"))


@pytest.mark.slow
@pytest.mark.skipif(VERSION < (1, 8), reason="the list is of the tests of newer versions")
@pytest.mark.parametrize(
    ("module", "reasons", "least"),
    [("sklearn.svm.tests.test_svm", SVM, 20)],
)
def test_every_failure_has_its_reason(tmp_path, module, reasons, least):
    found = outcomes_of(tmp_path, module)
    failed, passed = found["failed"], found["passed"]
    strangers = {name for name in failed if not any(matches(name, known) for known in reasons)}
    assert strangers == set()
    mended = {known for known in reasons if not any(matches(name, known) for name in failed)}
    assert mended == set()
    assert len(passed) >= least
