"""`device` and `precision` of estimators are those of `batchsvm.fit`."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest
from sklearn.base import clone

import batchsvm
from batchsvm import BatchSVC, BatchSVCCV, BatchSVR
from batchsvm.core.loop import Loop
from batchsvm.engines import placing
from helpers import toy

X, Y = toy("hinge")
KINDS = {
    BatchSVC: {"lam": 0.05},
    BatchSVR: {"lam": 0.05, "loss": "absolute"},
    BatchSVCCV: {"lams": [0.5, 0.05], "cv": 2},
}


@pytest.mark.parametrize("Kind", KINDS)
@pytest.mark.parametrize("name", ["device", "precision"])
def test_defaults_are_those_of_fit(Kind, name):
    ours, theirs = (inspect.signature(one).parameters[name] for one in (Kind, batchsvm.fit))
    assert ours.default == theirs.default


@pytest.mark.parametrize("Kind", KINDS)
def test_they_are_parameters_as_others_are(Kind):
    asked = {"device": 3, "precision": "float32"}
    made = Kind(**asked)
    for other in (made, clone(made), pickle.loads(pickle.dumps(made))):
        assert asked.items() <= other.get_params().items()


@pytest.mark.parametrize("Kind", KINDS)
@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"device": -1}, "device must be the number of a CUDA device, from 0 on, or None, not -1"),
        ({"device": "cuda:0"}, "device must be the number of a CUDA device.*, not 'cuda:0'"),
        ({"device": 0, "engine": "cpu"}, 'device must be None for engine="cpu", not 0'),
        ({"precision": "tf23"}, "precision must be one of 'auto', 'tf32'.*did you mean 'tf32'"),
        ({"precision": "tf32"}, 'precision must be "auto" or "float64" for engine="cpu"'),
    ],
)
def test_bad_ones_get_a_sentence_and_nothing_is_trained(Kind, parameters, sentence, monkeypatch):
    monkeypatch.setattr(Loop, "train", lambda *_: pytest.fail("training began"))
    with pytest.raises(ValueError, match=f"^{sentence}"):
        Kind(**KINDS[Kind], **parameters).fit(X, Y)


@pytest.mark.parametrize("Kind", KINDS)
def test_placed_data_keep_their_device(Kind):
    with (
        batchsvm.place(X) as data,
        pytest.raises(ValueError, match=r"^device must be None for placed data"),
    ):
        Kind(device=0, **KINDS[Kind]).fit(data, Y)


@pytest.mark.parametrize("Kind", KINDS)
def test_a_device_alone_asks_for_the_gpu_engine(Kind, monkeypatch):
    asked, place = [], placing.ENGINES["gpu"]

    def told(*how, device, **options):
        asked.append(device)
        return place(*how, device=device, **options)

    monkeypatch.setitem(placing.ENGINES, "gpu", told)
    made = Kind(device=0, precision="float64", random_state=0, **KINDS[Kind]).fit(X, Y)
    assert set(asked) == {0}
    assert len(asked) == (2 if Kind is BatchSVCCV else 1)  # once for the folds
    assert "products in float64, as asked for" in made.plan_.reason


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_float64_is_what_engines_of_the_host_have(engine):
    plain, asked = (
        BatchSVC(lam=0.05, engine=engine, random_state=0, precision=precision).fit(X, Y)
        for precision in ("auto", "float64")
    )
    np.testing.assert_array_equal(plain.coef_, asked.coef_)
