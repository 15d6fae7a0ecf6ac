"""What users pass in good faith and by mistake: one clear sentence, or the right result."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas
import polars
import pytest
import scipy.sparse as sp

import batchsvm
from batchsvm import BatchSVC, BatchSVCCV, BatchSVR
from batchsvm.core import checks
from batchsvm.models.fitting import certify_model, fit_model
from helpers import placed

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 3))
Y = np.where(X[:, 0] + 0.3 * X[:, 1] > 0, 1, -1)
T = X[:, 0] + 0.1
ESTIMATORS = {"BatchSVC": BatchSVC(lam=0.1), "BatchSVCCV": BatchSVCCV([0.1], cv=2)}


# Masked arrays.

MASKED = {
    "X of fit": lambda m: batchsvm.fit(m(X), Y),
    "X of fit, reference": lambda m: batchsvm.fit(m(X), Y, engine="reference"),
    "y of fit": lambda m: batchsvm.fit(X, m(Y)),
    "y of a regression": lambda m: batchsvm.fit(X, m(T), "absolute"),
    "sample_weight of fit": lambda m: batchsvm.fit(X, Y, sample_weight=m(np.ones(24))),
    "offset of fit": lambda m: batchsvm.fit(X, Y, offset=m(np.ones(24))),
    "targets of fit_many": lambda m: batchsvm.fit_many(X, m(Y)),
    "targets of fit_many, K of them": lambda m: batchsvm.fit_many(X, m(np.c_[Y, -Y])),
    "lams of path": lambda m: batchsvm.path(X, Y, m(np.array([0.1, 0.2]))),
    "w of certify": lambda m: batchsvm.certify(X, Y, m(np.zeros(3)), np.zeros(24)),
    "alpha of certify": lambda m: batchsvm.certify(X, Y, np.zeros(3), m(np.zeros(24))),
    "X of fit_model": lambda m: fit_model(m(X), Y),
    "y of fit_model": lambda m: fit_model(X, m(Y)),
    "X of BatchSVC": lambda m: BatchSVC().fit(m(X), Y),
    "y of BatchSVC": lambda m: BatchSVC().fit(X, m(Y)),
    "y of BatchSVR": lambda m: BatchSVR().fit(X, m(T)),
    "y of BatchSVC, placed": lambda m: BatchSVC().fit(placed(X), m(Y)),
    "sample_weight of BatchSVC": lambda m: BatchSVC().fit(X, Y, m(np.ones(24))),
    "X of predict": lambda m: BatchSVC(lam=0.1).fit(X, Y).predict(m(X)),
    "X of Model.predict": lambda m: fit_model(X, Y, lam=0.1)[0].predict(m(X)),
    "X of partial_fit": lambda m: BatchSVC().partial_fit(m(X), Y, classes=[-1, 1]),
}


@pytest.mark.parametrize("what", MASKED)
def test_masked_arrays_are_refused(what):
    parameter = what.split()[0]
    with pytest.raises(ValueError, match=f"^{parameter} must be .*(not a masked one|masked)"):
        MASKED[what](lambda a: np.ma.masked_array(a, np.arange(a.size).reshape(a.shape) == 1))


# Complex numbers and numbers written as words.

KINDS = {
    "complex": lambda a: np.asarray(a) + 1j,
    "words": lambda a: np.asarray(a).astype(str),
    "bytes": lambda a: np.asarray(a).astype(str).astype("S"),
    "words as objects": lambda a: np.asarray(a).astype(str).astype(object),
    "a list of words": lambda a: np.asarray(a).astype(str).tolist(),
    "dates": lambda a: np.asarray(a).astype("i8").astype("M8[s]"),
}
PLACES = {
    "X": lambda k: batchsvm.fit(k(X), Y),
    "sample_weight": lambda k: batchsvm.fit(X, Y, sample_weight=k(np.ones(24))),
    "offset": lambda k: batchsvm.fit(X, Y, offset=k(np.ones(24))),
    "y": lambda k: batchsvm.fit(X, k(T), "absolute"),
    "w": lambda k: batchsvm.certify(X, Y, k(np.zeros(3)), np.zeros(24)),
    "alpha": lambda k: batchsvm.certify(X, Y, np.zeros(3), k(np.zeros(24))),
    "w of initial": lambda k: batchsvm.fit(X, Y, initial=(k(np.zeros(3)), np.zeros(24))),
    "alpha of initial": lambda k: batchsvm.fit(X, Y, initial=(np.zeros(3), k(np.zeros(24)))),
    "lams": lambda k: batchsvm.path(X, Y, k(np.array([0.1, 1.0]))),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_real_number_is_refused(place, kind):
    with pytest.raises(ValueError, match=f"^{place} must (hold|be) .*number.*, not "):
        PLACES[place](KINDS[kind])


@pytest.mark.parametrize("name", ["complex", "complex as objects"])
@pytest.mark.parametrize("loss", ["hinge", "absolute"])
def test_complex_labels_are_refused(name, loss):
    y = (Y + 1j).astype(object) if "objects" in name else Y + 1j
    for call in (batchsvm.fit, batchsvm.fit_many, fit_model):
        with pytest.raises(ValueError, match="must hold labels or real numbers, not complex128"):
            call(X, y, loss)
    with pytest.raises(ValueError, match=r"Complex data not supported|real numbers"):
        BatchSVC().fit(X, y)


@pytest.mark.parametrize(
    "made",
    [
        X.astype(str),
        X.astype(str).astype(object),
        X.astype(str).tolist(),
        pandas.DataFrame(X).astype({1: str}),
        pandas.DataFrame(X).astype({1: str}).astype({1: "category"}),
        pandas.DataFrame(X).astype({1: object}).assign(**{"1": X[:, 1].astype(str)}),
        polars.DataFrame(X).with_columns(polars.col("column_1").cast(str)),
    ],
    ids=["array", "objects", "list", "pandas", "pandas category", "pandas objects", "polars"],
)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_estimators_refuse_numbers_written_as_words(made):
    if isinstance(made, pandas.DataFrame):
        made.columns = made.columns.astype(str)
    fitted = BatchSVC(lam=0.1).fit(X, Y)
    for call in (
        lambda: BatchSVC().fit(made, Y),
        lambda: BatchSVR().fit(made, T),
        lambda: BatchSVCCV([0.1]).fit(made, Y),
        lambda: BatchSVC().partial_fit(made, Y, classes=[-1, 1]),
        lambda: fitted.predict(made),
    ):
        with pytest.raises(ValueError, match="X must hold real numbers, not words"):
            call()


def test_a_regressor_refuses_targets_written_as_words():
    for y in (T.astype(str), T.astype(str).tolist(), T.astype(str).astype(object)):
        for data in (X, placed(X)):
            with pytest.raises(ValueError, match="y must hold numbers for a regression loss, not"):
                BatchSVR().fit(data, y)


def test_words_are_labels():
    y = np.where(Y > 0, "10", "9")  # as words: "10" < "9"
    assert batchsvm.fit(X, y, lam=0.1).classes.tolist() == ["10", "9"]
    assert BatchSVC(lam=0.1).fit(X, y.tolist()).classes_.tolist() == ["10", "9"]


# Labels of several kinds.

MIXED = {
    "numbers and words": [1, "a"] * 12,
    "numbers and words as objects": np.array([1, "a"] * 12, object),
    "words and None": ["a", None] * 12,
    "words and bytes": ["a", b"a"] * 12,
    "words and NaN": ["a", float("nan")] * 12,
    "a series": pandas.Series([1, "a"] * 12, dtype=object),
}


@pytest.mark.parametrize("name", MIXED)
def test_labels_of_several_kinds_are_refused(name):
    y = MIXED[name]
    for call in (
        lambda: batchsvm.fit(X, y),
        lambda: batchsvm.fit_many(X, y),
        lambda: fit_model(X, y),
        lambda: BatchSVC().fit(X, y),
        lambda: BatchSVCCV([0.1]).fit(X, y),
        lambda: certify_model(fit_model(X, Y, lam=0.1, random_state=0)[0], X, y),
    ):
        with pytest.raises(ValueError, match="must hold labels of one kind, not a mixture of"):
            call()


@pytest.mark.parametrize(
    "y", [[1, 2.0] * 12, [True, 0] * 12, np.array([1, 0] * 12, object),
          pandas.Series([1, 0] * 12, dtype="Int64"), [np.float32(1), 0] * 12]
)  # fmt: skip
def test_numbers_of_several_types_are_one_kind(y):
    assert batchsvm.fit(X, y, lam=0.1).classes.size == 2
    if np.asarray(y).dtype.kind != "O" or isinstance(
        y, pandas.Series
    ):  # which scikit-learn takes for no labels
        assert BatchSVC(lam=0.1).fit(X, y).classes_.size == 2


def test_nan_among_objects_is_no_label():
    with pytest.raises(ValueError, match="y must be finite, but it holds nan"):
        batchsvm.fit(X, np.array([1.0, np.nan] * 12, object))


# Parameters.


@pytest.mark.parametrize(
    ("lam", "words"),
    [
        (10**400, "a finite positive number, not an integer of 1329 bits"),
        (10**5000, "a finite positive number, not an integer of 16610 bits"),
        (-(10**400), "a finite positive number, not an integer of 1329 bits"),
        (Fraction(10**400), "a finite positive number, not Fraction"),
        (1e-310, "at least 2.2e-308, the smallest number of full precision, not 1e-310"),
        (5e-324, "at least 2.2e-308"),
        (Fraction(1, 10**400), "a finite positive number"),
    ],
    ids=["10^400", "10^5000", "-10^400", "fraction", "subnormal", "least", "small fraction"],
)
def test_a_lam_beyond_the_range_of_floats(lam, words):
    for call in (
        lambda: batchsvm.fit(X, Y, lam=lam),
        lambda: batchsvm.fit_many(X, Y, lam=lam),
        lambda: batchsvm.certify(X, Y, np.zeros(3), np.zeros(24), lam=lam),
        lambda: batchsvm.plan(X, lam=lam),
        lambda: BatchSVC(lam=lam).fit(X, Y),
        lambda: BatchSVR(lam=lam).fit(X, T),
    ):
        with pytest.raises(ValueError, match=f"lam must be {words}"):
            call()
    for call in (
        lambda: batchsvm.path(X, Y, [0.1, lam]),
        lambda: batchsvm.fit_many(X, np.c_[Y, Y], lam=[0.1, lam]),
        lambda: BatchSVCCV([0.1, lam]).fit(X, Y),
    ):
        with pytest.raises(ValueError, match=r"lams? must (be finite|hold at least one number)"):
            call()


def test_the_least_lam_is_allowed():
    assert checks.read_lam("lam", checks.LEAST_LAM) == checks.LEAST_LAM
    assert checks.read_lams("lams", [checks.LEAST_LAM]).tolist() == [checks.LEAST_LAM]


@pytest.mark.parametrize("C", [1e308, 1e-310, 5e-324])
def test_a_C_whose_lam_is_no_number(C):
    for estimator, y in ((BatchSVC(C=C), Y), (BatchSVR(C=C), T)):
        with pytest.raises(ValueError, match=r"^C must give a lam = 1/\(C \* sum of the weights\)"):
            estimator.fit(X, y)


SCALARS = ["loss", "lam", "method", "batch_size", "tol", "max_epochs", "averaging", "n_jobs",
           "random_state", "callback", "checkpoints", "engine", "bias"]  # fmt: skip


@pytest.mark.parametrize(
    "value", [np.array([0.1, 0.2]), np.array(["auto", "cpu"]), np.array(["auto"]), np.array("auto"),
              np.array(0.5), pandas.Series([1, 2]), np.zeros((2, 2)), [0.5, 0.25], {}],
    ids=["numbers", "words", "one word", "a word", "a number", "series", "square", "list", "dict"],
)  # fmt: skip
@pytest.mark.parametrize("parameter", SCALARS)
def test_an_array_in_the_place_of_a_scalar(parameter, value):
    if parameter == "checkpoints" and isinstance(value, pandas.Series):
        value = -value  # increasing numbers are right
    with pytest.raises(ValueError, match=f"^{parameter} must be "):
        batchsvm.fit(X, Y, **{parameter: value})


@pytest.mark.parametrize(
    "parameter",
    ["loss", "lam", "C", "method", "batch_size", "tol", "max_epochs", "fit_intercept", "intercept",
     "intercept_scaling", "class_weight", "warm_start", "n_jobs", "verbose"],
)  # fmt: skip
def test_an_array_in_the_place_of_a_scalar_of_an_estimator(parameter):
    for value in (np.array([0.1, 0.2]), np.array(["auto", "free"]), np.array("auto")):
        with pytest.raises(ValueError, match=f"^{parameter} must be "):
            BatchSVC(**{parameter: value}).fit(X, Y)


def test_an_array_in_the_place_of_other_scalars():
    two = np.array([0.5, 0.25])
    zeros = np.zeros(3), np.zeros(24)
    with pytest.raises(ValueError, match=r"^radius must be"):
        batchsvm.certify(X, Y, *zeros, radius=two)
    with pytest.raises(ValueError, match=r"^sigma2 must be"):
        batchsvm.plan(X, sigma2=two)
    with pytest.raises(ValueError, match=r"^method must be"):
        batchsvm.sigma2(X, method=two)
    with pytest.raises(ValueError, match=r"^intercept must be"):
        batchsvm.fit_many(X, Y, intercept=two)
    with pytest.raises(ValueError, match=r"^scaling must be"):
        batchsvm.fit_many(X, Y, intercept="free", scaling=two)
    with pytest.raises(ValueError, match=r"^radius must be"):
        batchsvm.fit(X, Y, method=batchsvm.methods.Pegasos(radius=two))
    with placed(X) as data, pytest.raises(ValueError, match=r"^engine must be"):
        batchsvm.fit(data, Y, engine=np.array(["auto", "cpu"]))


def test_values_in_messages_are_short():
    assert checks.shown(np.zeros((1000, 3))) == "an array of shape (1000, 3)"
    assert len(checks.shown("x" * 10_000)) == 200
    assert checks.shown("a\nb") == r"'a\nb'"


# Numbers at the edge.


def test_targets_whose_losses_overflow():
    y = np.full(6, 1e308)
    for call in (
        lambda: batchsvm.fit(X[:6], y, loss="absolute", lam=0.1),
        lambda: batchsvm.fit(X[:6], y, loss="absolute", lam=0.1, engine="reference"),
        lambda: batchsvm.fit_many(X[:6], np.c_[y, y], loss="huber", lam=0.1),
        lambda: batchsvm.path(X[:6], y, [0.1], "quantile", intercept="free"),
        lambda: batchsvm.certify(X[:6], y, np.zeros(3), np.zeros(6), "absolute"),
        lambda: batchsvm.plan(X[:6], y, loss="absolute"),
        lambda: BatchSVR(lam=0.1).fit(X[:6], y),
    ):
        with pytest.raises(
            ValueError,
            match=r"\by must have a finite mean loss.* is infinite: scale|column 0 of targets",
        ):
            call()


def test_weights_and_offsets_whose_losses_overflow():
    y = np.full(6, 1e250)
    for engine in ("cpu", "reference"):
        for options in ({"sample_weight": np.full(6, 1e90)}, {"offset": np.full(6, 1.7e308)}):
            with pytest.raises(ValueError, match="y must have a finite mean loss at w = 0"):
                batchsvm.fit(X[:6], y, loss="absolute", lam=0.1, engine=engine, **options)


def test_large_targets_whose_losses_do_not_overflow():
    found = batchsvm.fit(X, T * 1e200, loss="absolute", lam=1e-3, warn=False, max_epochs=5)
    assert np.isfinite(found.certificate.primal)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, np.asfortranarray])
@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_a_free_intercept_blames_X_for_its_nan(bad, form, engine):
    Z = np.tile(X, (3, 1))
    Z[5, 1] = bad
    y = np.tile(Y, 3)
    sentence = "X must be finite .* but row 5 holds"
    for intercept in (None, "penalised", "free"):
        with pytest.raises(ValueError, match=sentence):
            batchsvm.path(form(Z), y, [0.1, 0.01], intercept=intercept, engine=engine)
    with pytest.raises(ValueError, match=sentence):
        batchsvm.fit_many(form(Z), y, intercept="free", engine=engine, n_jobs=2)
    if engine == "cpu":
        with placed(form(Z)) as data, pytest.raises(ValueError, match=sentence):
            data.mean_norm2  # noqa: B018


def test_a_free_intercept_blames_X_beyond_the_rows_whose_norms_are_kept():
    Z = np.ones((40_000, 2))
    Z[39_000, 1] = np.nan
    y = np.where(np.arange(40_000) % 2, 1, -1)
    with pytest.raises(ValueError, match=r"X must be finite .* but row 39000 holds nan"):
        BatchSVC(lam=0.1, intercept="free").fit(Z, y)


def test_the_mean_norm_does_not_overflow():
    with placed(np.full((30, 1000), 9e149)) as data:
        assert data.mean_norm2 == np.inf or np.isfinite(data.mean_norm2)
    with placed(np.full((300, 1), 9e149)) as data:
        np.testing.assert_allclose(data.mean_norm2, 8.1e299)


# Scorers.


def test_a_scorer_that_gives_no_number():
    with pytest.raises(
        ValueError, match="scoring must give numbers to choose lam by, but for each"
    ):
        BatchSVCCV([0.1, 0.01], scoring=lambda model, X, y: float("nan")).fit(X, Y)
    for wrong in (None, "good", [1.0, 2.0], 1j, np.array([1.0])):
        with pytest.raises(ValueError, match="scoring must give a number, not"):
            BatchSVCCV([0.1], scoring=lambda model, X, y, wrong=wrong: wrong).fit(X, Y)


def test_a_lam_without_a_score_is_not_chosen():
    """NumPy's argmax takes NaN for the largest number."""

    def score(model, X, y):
        return float("nan") if np.abs(model.coef_).max() < 0.5 else model.score(X, y)

    model = BatchSVCCV([100.0, 0.01], scoring=score).fit(X, Y)
    assert np.isnan(model.scores_[:, 0]).all()
    assert model.lam_ == 0.01
