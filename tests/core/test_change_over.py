"""Fits that begin with SDCA and go on with Newton's method where the gap falls too slowly."""

from __future__ import annotations

import warnings
from math import exp, inf

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import batchsvm
from batchsvm import BatchSVC, Status
from batchsvm.core import training
from batchsvm.core.change_over import ChangeOver, Trial, late_trial_of, trial_of
from batchsvm.core.options import FitOptions
from batchsvm.core.parallel import StopFlag
from batchsvm.engines.host_dataset import HostDataset
from batchsvm.methods import Aggressive, Newton
from helpers import one_problem, placed, quietly


def far_apart(n=400, d=40):
    """Rows of which most are far from the margin: SDCA is done in some epochs, whatever lam is."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    X[:, 0] += 4.0 * y
    return X, y


def much_alike(n=300, d=60):
    """Columns that are nearly the same, and labels that no w tells apart: SDCA is slow."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 1)) + 0.05 * rng.normal(size=(n, d))
    y = np.where(X @ rng.normal(size=d) > 0, 1.0, -1.0)
    return X, np.where(rng.random(n) < 0.2, -y, y)


def slow_fit(**options):
    X, y = much_alike()
    return batchsvm.fit(X, y, lam=1e-6, random_state=0, **options)


# The rule.


def test_a_trial_takes_a_part_of_the_time_of_newtons_method():
    assert trial_of(100.0, 1000.0) == Trial(25.0, 1000.0, 100.0)
    assert trial_of(10_000.0, 1000.0) == Trial(125.0, 1000.0, 500.0)
    assert trial_of(15.0, 1000.0) is None
    assert trial_of(100.0, 31.0) is None
    assert trial_of(100.0, 1000.0).epochs == [25.0, 50.0, 100.0, 200.0, 400.0, 800.0]
    assert trial_of(100.0, 1000.0).iterations(10.0) == [250, 500, 1000, 2000, 4000, 8000]
    assert str(trial_of(100.0, 1000.0)) == "25, 50, 100, ... epochs"
    assert str(Trial(4.0, 18.0, 1.0)) == "4, 8, 9 epochs"
    assert Trial(30.0, 60.0, 1.0).epochs == [30.0]


def test_newtons_method_is_left_enough_iterations():
    assert Trial(4.0, 1000.0, 1.0).last == 800.0
    assert Trial(4.0, 100.0, 1.0).last == 50.0
    # At the last check, SDCA has to be done in what is left.
    for needed, due in ((150.0, False), (250.0, True)):
        change = ChangeOver(Trial(400.0, 1000.0, 500.0), exp(2.0))
        assert not change.is_due(400.0, exp(1.0), 1.0)  # 400 more at this rate
        assert change.is_due(800.0, exp(needed / (400.0 + needed)), 1.0) == due


def test_a_late_trial_begins_when_newtons_method_would_have_ended():
    assert late_trial_of(100.0, 1000.0) == Trial(100.0, 1000.0, 100.0, is_late=True)
    assert late_trial_of(2.0, 1000.0) == Trial(16.0, 1000.0, 2.0, is_late=True)
    # Of little data, Newton's method takes as long as any number of epochs.
    assert late_trial_of(1e5, 1000.0) == Trial(250.0, 1000.0, 250.0, is_late=True)
    assert late_trial_of(2.0, 32.0).epochs == [16.0]
    assert late_trial_of(2.0, 31.0) is None
    assert late_trial_of(100.0, 1e308).iterations(1e6)[0] == 1e8
    assert trial_of(100.0, 1e308).iterations(1e6)[-1] < 1e15


@pytest.mark.parametrize(("rate", "due"), [(0.1, False), (0.06, True), (0.0, True), (-0.1, True)])
def test_it_is_due_where_the_gap_falls_too_slowly(rate, due):
    """From a gap of e to 1e-4 at 0.1 per epoch: 82 epochs after 20 of them."""
    change = ChangeOver(Trial(20.0, 500.0, 100.0), exp(1.0))
    assert change.is_due(20.0, exp(1.0 - 20.0 * rate), 1e-4) == due


def test_the_gap_is_checked_after_twice_as_many_epochs_each_time():
    change = ChangeOver(Trial(10.0, 100.0, 20.0), 1.0)
    assert not change.is_due(5.0, 1.0, 1e-3)  # before the first check
    assert not change.is_due(10.0, 1e-2, 1e-3)  # 5 more at this rate
    assert not change.is_due(15.0, 1e-2, 1e-3)  # a checkpoint between two checks
    assert change.is_due(20.0, 9e-3, 1e-3)  # at the rate since the last check
    assert change.is_due(40.0, 9e-3, 1e-3)
    assert not change.is_due(80.0, 9e-3, 1e-3)  # so late, Newton's method has too few epochs


@given(
    first=st.floats(4.0, 300.0), n=st.integers(2, 10**6), b=st.integers(1, 64),
    factor=st.floats(2.0, 1000.0),
)  # fmt: skip
def test_no_check_is_missed_where_epochs_are_no_whole_iterations(first, n, b, factor):
    trial = Trial(first, factor * first, 0.0)
    per_epoch = n / min(b, n)
    change = ChangeOver(trial, 1.0)
    for at, epochs in zip(trial.iterations(per_epoch), trial.epochs, strict=True):
        assert 0 <= at - epochs * per_epoch + 1e-6 * at < 1.001 + 1e-6 * at
    for at in dict.fromkeys(trial.iterations(per_epoch)):  # two checks may be in one iteration
        assert change.is_due(at / per_epoch, 1.0, 1e-3)


def test_an_unknown_gap_and_a_goal_of_zero():
    change = ChangeOver(Trial(10.0, 500.0, 50.0), inf)
    assert not change.is_due(10.0, 1.0, 1e-3)
    assert not change.is_due(20.0, 1e-2, 1e-3)
    assert ChangeOver(Trial(10.0, 500.0, 50.0), 1.0).is_due(10.0, 0.5, 0.0)


# Fits.


def test_sdca_goes_on_where_it_is_fast():
    X, y = far_apart()
    plan = batchsvm.plan(X, y, lam=1e-7)
    assert (plan.method_in_words, plan.fallback) == ("serial SDCA", "newton")
    assert "Newton's method takes over if it falls too slowly" in plan.reason
    assert "serial SDCA, then Newton's method if needed, one thread: SDCA is tried" in str(plan)
    solution = batchsvm.fit(X, y, lam=1e-7, random_state=0)
    assert solution.plan == plan
    assert isinstance(solution.method, Aggressive)
    assert solution.status.converged
    assert "then" not in str(solution).split(":")[0]


def test_sdca_goes_on_after_checks(monkeypatch):
    """Which find a gap that falls fast enough."""
    checked, is_due = [], ChangeOver.is_due

    def noted(self, epoch, gap, goal):
        due = is_due(self, epoch, gap, goal)
        checked.append((epoch, due))
        return due

    monkeypatch.setattr(ChangeOver, "is_due", noted)
    monkeypatch.setattr("batchsvm.core.choice.trial_of", lambda *_: Trial(4.3, 500.0, 100.0))
    X, y = far_apart()
    X = X[:397]  # no check is after whole iterations
    solution = batchsvm.fit(X, y[:397], "logistic", 1e-3, tol=1e-12, random_state=0)
    assert isinstance(solution.method, Aggressive)
    assert solution.status.converged
    assert [epoch for epoch, _ in checked][:2] == pytest.approx([4.3, 8.6], abs=1 / 397)
    assert set(solution.history.epoch) >= {epoch for epoch, _ in checked}
    assert not any(due for _, due in checked)


def along_a_line(n=3000):
    """Two columns, and targets that nearly lie on a plane: few steps of the absolute loss end at a
    bound of alpha, which nobody foresees from the shape of the data."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, X @ [1.0, -1.0] + 1e-3 * rng.normal(size=n)


@pytest.mark.parametrize("intercept", [None, "free"])
def test_newtons_method_takes_over_where_sdca_was_to_be_faster(intercept):
    X, y = along_a_line()
    common = {"loss": "absolute", "lam": 1e-3, "tol": 1e-6}
    plan = batchsvm.plan(X, y, intercept=intercept, **common)
    assert (plan.method_in_words, plan.fallback) == ("serial SDCA", "newton")
    assert not plan.is_trial
    assert "Newton" not in plan.reason
    assert "serial SDCA, then Newton's method if needed, one thread: one thread runs" in str(plan)
    common |= {"intercept": intercept, "random_state": 0}
    [solution] = batchsvm.fit_many(X, y[:, np.newaxis], **common)
    assert solution.status.converged
    assert isinstance(solution.method, Newton)
    assert solution.history.epoch[-1] < 250
    alone = {"method": "safe", "batch_size": 1, "warn": False}
    [slow] = batchsvm.fit_many(X, y[:, np.newaxis], **common, **alone)
    assert slow.history.epoch[-1] == 1000
    assert not slow.status.converged


def test_a_late_trial_leaves_fits_alone_that_end_before():
    X, y = along_a_line()
    with placed(X) as data:
        problem = one_problem(data, np.sign(y), "hinge", 1e-2)
        [found] = training.train(data, problem, FitOptions(), training.Start(0))
        own = FitOptions(method=Aggressive(), batch_size=1)
        [same] = training.train(data, problem, own, training.Start(0))
    assert (found.plan.fallback, same.plan.fallback) == ("newton", "")
    np.testing.assert_array_equal(found.w, same.w)
    np.testing.assert_array_equal(found.alpha, same.alpha)


@pytest.mark.parametrize("loss", ["hinge", "absolute"])
@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_newtons_method_takes_over_where_it_is_slow(loss, engine):
    solution = slow_fit(loss=loss, engine=engine, tol=1e-5)
    assert isinstance(solution.method, Newton)
    assert solution.batch_size == 300
    assert solution.status.converged
    assert str(solution).startswith("serial SDCA, then Newton's method:")
    X, y = much_alike()
    sharp = batchsvm.fit(X, y, loss, 1e-6, method="newton", tol=1e-8).certificate
    assert solution.certificate.dual <= sharp.primal_above
    assert sharp.dual <= solution.certificate.primal_above
    alone = quietly(X, y, loss=loss, lam=1e-6, method="aggressive", batch_size=1, tol=1e-5)
    assert not alone.status.converged


def test_the_history_goes_on(monkeypatch):
    monkeypatch.setattr("batchsvm.core.choice.trial_of", lambda *_: Trial(7.001, 500.0, 10.0))
    seen = []
    solution = slow_fit(tol=1e-6, callback=lambda checkpoint: seen.append(checkpoint.iteration))
    history = solution.history
    assert seen == history.iteration.tolist() == sorted(seen)
    assert (np.diff(history.epoch) >= 0).all()
    assert (np.diff(history.gap) <= 0).all()  # the best points are taken along
    assert (np.diff(history.seconds) >= 0).all()
    by_sdca = ~np.isnan(history.beta)
    assert history.epoch[by_sdca].tolist() == pytest.approx([0.0, 7.001], abs=1 / 300)
    assert history.iteration[by_sdca].tolist() == [0, 2101]
    assert (history.epoch[~by_sdca] >= 8.0).all()
    assert 0 < history.estimates[-1, 0] <= 7.01


def test_the_same_seed_gives_the_same_bits():
    first, second = (slow_fit(tol=1e-5) for _ in range(2))
    np.testing.assert_array_equal(first.w, second.w)
    np.testing.assert_array_equal(first.alpha, second.alpha)


def test_wide_rows_and_a_loss_of_which_none_rests():
    """More columns than Hessians have: by conjugate gradients."""
    X, y = much_alike()
    X = sp.hstack([sp.csr_array(X), sp.csr_array((len(y), 4000))], format="csr")
    solution = batchsvm.fit(X, y, "logistic", 1e-7, tol=1e-6, random_state=0)
    assert solution.plan.fallback == "newton"
    assert "takes as long as some" in solution.plan.reason
    assert isinstance(solution.method, Newton)
    assert solution.status.converged
    assert batchsvm.plan(X, y, loss="squared_hinge", lam=1e-7).fallback == ""


@pytest.mark.parametrize("intercept", [None, "penalised", "free"])
def test_all_intercepts(intercept):
    X, y = much_alike()
    [solution] = batchsvm.fit_many(
        X, y[:, np.newaxis], lam=1e-6, intercept=intercept, tol=1e-4, random_state=0
    )
    assert solution.status is Status.CONVERGED
    assert isinstance(solution.method, Newton)


def test_a_warm_start_and_a_path():
    first = slow_fit()
    again = slow_fit(tol=1e-6, initial=first)
    assert again.status.converged
    X, y = much_alike()
    found = batchsvm.path(X, y, [1e-2, 1e-4, 1e-6], tol=1e-4, random_state=0)
    assert all(certificate.relative_gap <= 1e-4 for certificate in found.certificates)


def test_what_newtons_method_does_not_offer_has_no_fallback():
    X, y = much_alike()
    for asked in ({"averaging": "tail"}, {"batch_size": 4}, {"method": "aggressive"}):
        assert batchsvm.plan(X, y, lam=1e-6, **asked).fallback == ""
    assert quietly(X, y, lam=1e-6, checkpoints=[1000], max_epochs=50).plan.fallback == ""


def test_ctrl_c_after_the_change():
    seen = [0]

    def stop_at_newton(checkpoint):
        seen.append(checkpoint.iteration)
        if seen[-2] > 0 and seen[-1] - seen[-2] < 300:  # iterations of all rows
            raise KeyboardInterrupt

    solution = slow_fit(tol=1e-9, callback=stop_at_newton, warn=False)
    assert solution.status is Status.INTERRUPTED
    assert isinstance(solution.method, Newton)
    assert solution.certificate.gap == solution.history.gap.min()


@pytest.mark.parametrize(
    "where", [(HostDataset, "newton_trainer"), (training, "blas_threads")], ids=["trainer", "blas"]
)
def test_ctrl_c_during_the_change(where, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(*where, interrupt)
    solution = slow_fit(tol=1e-5, warn=False)
    assert solution.status is Status.INTERRUPTED
    assert isinstance(solution.method, Aggressive)
    assert solution.batch_size == 1
    assert solution.certificate.gap <= solution.history.gap[-1]
    assert np.isfinite(solution.certificate.bound)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_the_best_points_of_sdca_are_taken_along(loss, monkeypatch):
    """Also where Newton's method finds nothing better."""
    X, y = much_alike()

    def worse(trainer):
        trainer.w = trainer.w + 1.0
        trainer._iterations += 1
        return 1.0

    monkeypatch.setattr("batchsvm.engines.newton.NewtonTrainer._iterate", worse)
    monkeypatch.setattr("batchsvm.engines.proximal_newton.ProximalNewtonTrainer._iterate", worse)
    monkeypatch.setattr("batchsvm.core.choice.trial_of", lambda *_: Trial(5.0, 25.0, 0.0))
    solution = batchsvm.fit(X, y, loss, 1e-6, tol=1e-9, max_epochs=50, random_state=0, warn=False)
    assert isinstance(solution.method, Newton)
    assert solution.certificate.primal == solution.history.primal.min()
    again = batchsvm.certify(X, y, solution.w, solution.alpha, loss, 1e-6)
    assert again.primal == pytest.approx(solution.certificate.primal, rel=1e-12)
    assert again.dual == pytest.approx(solution.certificate.dual, rel=1e-12)


def test_a_stop_flag_at_a_check_ends_the_fit(monkeypatch):
    """As Ctrl-C does in one of several threads."""
    flag, is_due = StopFlag(), ChangeOver.is_due

    def stop(self, *args):
        flag.set()
        return is_due(self, *args)

    X, y = much_alike()
    monkeypatch.setattr(ChangeOver, "is_due", stop)
    with placed(X) as data:
        [solution] = training.train(
            data, one_problem(data, y, lam=1e-6), FitOptions(), training.Start(0), flag
        )
    assert solution.status is Status.INTERRUPTED
    assert isinstance(solution.method, Aggressive)


def test_no_warning_of_columns_where_newtons_method_may_take_over():
    X, y = far_apart()
    X[:, 1:20] *= 1e5
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        assert batchsvm.fit(X, y, random_state=0).plan.fallback == "newton"
    wide = sp.hstack([sp.csr_array(X), sp.csr_array((len(y), 4000))], format="csr")
    with pytest.warns(ConvergenceWarning) as found:
        batchsvm.fit(wide, y, "logistic", max_epochs=20)
    assert "columns of X differ in size" in str(found[0].message)


def test_few_epochs_end_in_the_trial_or_after_it():
    for epochs in (3, 30, 60):
        solution = slow_fit(tol=1e-9, max_epochs=epochs, warn=False)
        assert solution.status is Status.MAX_EPOCHS
        assert epochs <= solution.history.epoch[-1] < epochs + 1


def test_model_files_keep_the_fallback(tmp_path):
    solution = slow_fit()
    solution.save(tmp_path / "model")
    model = batchsvm.load(tmp_path / "model")
    assert model.plan.fallback == "newton"
    assert model.method == "newton"
    X, y = much_alike()
    assert batchsvm.Solution.load(tmp_path / "model").plan == solution.plan
    estimator = BatchSVC(lam=1e-6, random_state=0).fit(X, y)
    assert estimator.plan_.fallback == "newton"
