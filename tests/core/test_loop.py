"""The loop: history, checkpoints, warm starts, interruptions, warnings."""

from __future__ import annotations

import pickle
import warnings
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import batchsvm
from batchsvm.core import loop
from batchsvm.core.certificate import Certificate
from batchsvm.core.solution import Status
from batchsvm.core.tuning import DEFAULT_TUNING
from batchsvm.engines.cpu.steppers import SerialSteps
from batchsvm.engines.trainer import HostTrainer
from batchsvm.losses import LOSSES
from batchsvm.methods import Pegasos, Safe
from helpers import HOST_METHODS, LAM, placed, quietly, thinned, toy

X, Y = toy("hinge")


def test_history():
    solution = quietly(X, Y, lam=1e-3, method="aggressive", batch_size=10, tol=1e-5, max_epochs=900)
    history = solution.history
    size = len(history)
    assert size > 4
    for name in vars(history).keys() - {"estimates"}:
        assert getattr(history, name).shape == (size,)
    assert history.estimates.shape[1] == 2
    assert history.iteration[0] == history.seconds[0] == 0
    assert history.primal[0] == 1.0
    assert history.dual[0] == 0.0
    best = np.minimum.accumulate(history.primal) - np.maximum.accumulate(history.dual)
    np.testing.assert_allclose(history.gap, best, atol=1e-15)
    np.testing.assert_allclose(history.epoch, history.iteration * 10 / 60)
    for name in ("iteration", "seconds", "certify_seconds", "refused"):
        assert np.all(np.diff(getattr(history, name)) >= 0), name
    assert solution.certificate.gap == history.gap.min()
    assert history.certify_seconds[-1] > 0


def test_checkpoints_grow_geometrically_and_cost_a_twentieth():
    at = list(loop.checkpoints(200_000, per_epoch=100, tail=False))
    assert at[-1] == 200_000
    gaps = np.diff([0, *at[:-1]])
    assert np.all(np.diff(gaps) >= -1)
    assert gaps[-1] > 10 * gaps[0]
    # A certificate costs about one epoch (benchmarks/run.py measures it).
    for count, iteration in enumerate(at, start=1):
        assert count <= 0.05 * iteration / 100 + 1e-9


def test_an_iterator_of_checkpoints_is_asked_after_each_certificate():
    seen = []

    def looks():
        yield 4
        assert seen[-1] == 4
        yield 4 + len(seen)  # (0 and 4)

    solution = quietly(
        X, Y, lam=LAM, tol=0, max_epochs=1, checkpoints=looks(),
        callback=lambda checkpoint: seen.append(checkpoint.iteration),
    )  # fmt: skip
    assert seen[:3] == [0, 4, 6]
    assert solution.history.iteration.tolist() == seen
    with pytest.raises(ValueError, match="checkpoints must be 'auto' or increasing positive"):
        quietly(X, Y, lam=LAM, tol=0, max_epochs=1, checkpoints=iter([3, 2]))


@pytest.mark.parametrize("method", ["pegasos", "safe"])
def test_a_callback_sees_the_last_iterate_beside_the_average(method):
    common = {
        "lam": LAM,
        "method": method,
        "batch_size": 4,
        "tol": 0,
        "checkpoints": [9],
    }
    kept = {}

    def keep(averaging):
        return lambda c: kept.update({averaging: (c.w.copy(), c.iterate.copy())})

    for averaging in (None, "decay"):
        quietly(X, Y, averaging=averaging, max_epochs=5, callback=keep(averaging), **common)
    (w, iterate), (mean, last) = kept[None], kept["decay"]
    np.testing.assert_array_equal(w, iterate)
    np.testing.assert_array_equal(iterate, last)
    assert np.linalg.norm(mean - last) > 1e-6


@pytest.mark.parametrize("iterations", [1, 2, 7, 999, 12345])
@pytest.mark.parametrize("tail", [False, True])
def test_checkpoints_end_at_the_last_iteration(iterations, tail):
    at = list(loop.checkpoints(iterations, per_epoch=10, tail=tail))
    assert at[-1] == iterations
    assert np.all(np.diff([0, *at]) > 0)
    if tail:
        assert all(half == whole // 2 for half, whole in pairwise(at))


def test_certificates_can_be_asked_for_by_iteration():
    asked = [1, 2, 5, 17, 40]
    solution = quietly(
        X, Y, lam=1e-3, method="safe", batch_size=6, tol=1e-6, max_epochs=30, checkpoints=asked
    )
    assert solution.history.iteration.tolist() == [0, 1, 2, 5, 17, 40, 200, 300]
    solution = quietly(X, Y, lam=LAM, tol=0.5, checkpoints=np.arange(1, 9))
    assert solution.status.converged
    relative = solution.history.gap / np.minimum.accumulate(solution.history.primal)
    assert relative[-1] <= 0.5 < relative[-2]
    solution = batchsvm.fit(X, Y, lam=LAM, tol=0.01, checkpoints=[1, 2])
    assert solution.history.iteration[:3].tolist() == [0, 1, 2]
    assert solution.history.epoch[-1] < 50  # and after the last one, as if none were asked for


def test_max_epochs_is_kept_to():
    for b in (1, 7, 60):
        solution = quietly(X, Y, lam=1e-5, method="safe", batch_size=b, tol=0, max_epochs=2.5)
        assert solution.history.iteration[-1] == int(np.ceil(2.5 * 60 / b))
        assert solution.status is Status.MAX_EPOCHS


def test_a_fit_that_falls_short_warns_with_its_gap_and_what_to_try():
    for method, advice in [
        ("pegasos", 'To get closer, raise max_epochs .*, or use method="auto"'),
        ("naive", 'Naive steps may never converge .* use method="aggressive"'),
        ("safe", "To get closer, raise max_epochs .*, or use a smaller batch_size"),
    ]:
        with pytest.warns(ConvergenceWarning, match=advice) as caught:
            solution = batchsvm.fit(X, Y, lam=1e-4, method=method, batch_size=30, max_epochs=1)
        certificate = solution.certificate
        assert f"at most {certificate.bound:.3g} above its optimum" in str(caught[0].message)
        assert f"{certificate.relative_gap:.3g} of it" in str(caught[0].message)
        assert caught[0].filename == __file__
    with pytest.warns(ConvergenceWarning, match="1\\), use a larger lam, or scale the columns"):
        batchsvm.fit(X, Y, lam=1e-6, max_epochs=1)


def test_newtons_method_is_named_where_columns_are_few_and_the_loss_is_smooth():
    options = {"lam": 1e-6, "method": "aggressive", "batch_size": 1, "max_epochs": 1}
    few = 'use method="newton" with batch_size="auto", use a larger lam, or scale the columns'
    many = r"1\), use a larger lam, or scale the columns"
    most = DEFAULT_TUNING.max_hessian_columns
    wide, wider = (np.hstack([X, np.zeros((len(X), p - X.shape[1]))]) for p in (most, most + 1))
    for rows, loss, advice in (
        (X, "logistic", few), (wide, "logistic", few), (wider, "logistic", many),
        (X, "hinge", many),
    ):  # fmt: skip
        with pytest.warns(ConvergenceWarning, match=advice):
            batchsvm.fit(rows, Y, loss, **options)
    with pytest.warns(ConvergenceWarning, match=many):
        batchsvm.fit(X, Y, "logistic", 1e-6, method="newton", max_epochs=1)


def test_a_fit_that_converges_is_silent(capfd):
    batchsvm.fit(X, Y, lam=LAM)
    capfd.readouterr()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batchsvm.fit(X, Y, lam=LAM)
    assert capfd.readouterr() == ("", "")


def test_a_tol_below_rounding_stops_at_rounding():
    for seed in range(10):
        with pytest.warns(ConvergenceWarning, match="below its own rounding error.*Float64 can"):
            solution = batchsvm.fit(
                X, Y, "huber", LAM, tol=1e-17, max_epochs=10**6, random_state=seed
            )
        assert solution.status is Status.PRECISION
        assert solution.certificate.gap <= solution.certificate.rounding


def test_a_gap_within_tol_is_proven_only_with_its_rounding_error():
    for tol in (1e-6, 1e-12, 1e-13, 1e-14):
        solution = quietly(X, Y, "huber", LAM, tol=tol, max_epochs=10**5, method="safe")
        certificate = solution.certificate
        proven = certificate.gap + certificate.rounding <= tol * solution.history.primal[0]
        assert proven == (solution.status is Status.CONVERGED)


def test_an_epoch_that_reaches_tol_ends_the_run():
    # Far fewer iterations than to the first planned checkpoint, and no epoch too many.
    solution = batchsvm.fit(X, Y, lam=LAM, tol=0.05, method="safe", batch_size=5)
    assert len(solution.history) == 2
    assert solution.history.iteration[-1] % 12 == 0
    assert solution.history.iteration[-1] < 10 * 12
    assert solution.history.gap[-1] > 1e-3


@pytest.mark.parametrize("method", HOST_METHODS)
def test_cutting_a_run_into_many_calls_changes_nothing(method):
    whole = quietly(X, Y, lam=LAM, method=method, batch_size=5, tol=1e-3, max_epochs=20)
    with placed(X, max_call_nonzeros=60) as data:
        cut = quietly(data, Y, lam=LAM, method=method, batch_size=5, tol=1e-3, max_epochs=20)
    np.testing.assert_array_equal(whole.w, cut.w)
    np.testing.assert_array_equal(whole.history.iteration, cut.history.iteration)


def test_compiling_is_left_out_of_the_seconds(monkeypatch):
    # A trainer's start calls each kernel with nothing to do.
    counts = []
    advance = SerialSteps.advance

    def counted(self, count, target):
        counts.append(count)
        return advance(self, count, target)

    monkeypatch.setattr(SerialSteps, "advance", counted)
    batchsvm.fit(X, Y, lam=LAM)
    assert counts[0] == 0
    assert min(counts[1:]) > 0


@pytest.mark.parametrize(("method", "loss_name"), thinned(HOST_METHODS, LOSSES))
def test_warm_start_goes_on_where_it_stopped(method, loss_name):
    lam = 1.0 if loss_name == "squared_hinge" else LAM
    data, y = toy(loss_name)
    far = batchsvm.fit(data, y, loss_name, lam, tol=1e-5, max_epochs=5000, random_state=0)
    for initial in (far, (far.w, far.alpha)):
        again = quietly(
            data, y, loss_name, lam, method, 4, tol=1e-5, initial=initial, random_state=1
        )
        assert again.status.converged
        assert again.history.iteration.tolist() == [0]  # nothing was left to do
        np.testing.assert_allclose(again.w, far.w, atol=1e-12)
    closer = quietly(
        data, y, loss_name, lam, "auto", tol=1e-8, initial=far, max_epochs=50_000, random_state=1
    )
    assert closer.history.gap[0] == pytest.approx(far.certificate.gap, abs=1e-12)
    assert closer.status.converged


def test_warm_start_along_a_path_of_lam():
    cold = batchsvm.fit(X, Y, lam=0.01, tol=1e-4, random_state=0)
    near = batchsvm.fit(X, Y, lam=0.011, tol=1e-4, random_state=0)
    warm = batchsvm.fit(X, Y, lam=0.01, tol=1e-4, initial=near, random_state=0)
    assert warm.history.gap[0] < cold.history.gap[0]
    assert warm.certificate.relative_gap <= 1e-4


@pytest.mark.parametrize("method", HOST_METHODS)
def test_ctrl_c_returns_the_best_certified_point(method):
    def press(checkpoint):
        if checkpoint.iteration > 0:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="pass this solution as initial"):
        solution = batchsvm.fit(X, Y, lam=1e-3, method=method, tol=0, callback=press)
    assert solution.status is Status.INTERRUPTED
    assert "best certified" in solution.status.value
    again = batchsvm.certify(X, Y, solution.w, solution.alpha, lam=1e-3)
    assert again == solution.certificate


def test_ctrl_c_between_two_certificates(monkeypatch):
    calls, run = [], HostTrainer.run

    def interrupted(self, until, targets, stop):
        if len(calls) == 1:
            self.state.w[:] = np.nan  # whatever was under way is not what is returned
            raise KeyboardInterrupt
        calls.append(until)
        return run(self, until, targets, stop)

    monkeypatch.setattr(HostTrainer, "run", interrupted)
    solution = quietly(X, Y, lam=1e-4, tol=1e-9, checkpoints=[30], random_state=0)
    assert solution.status is Status.INTERRUPTED
    assert np.isfinite(solution.w).all()
    assert len(solution.history) == 2
    assert solution.certificate.gap == solution.history.gap.min()


@pytest.mark.parametrize("method", ["auto", "pegasos", Pegasos(radius=0.5)], ids=str)
def test_ctrl_c_gives_back_where_training_stands_if_that_is_known(method, monkeypatch):
    run = HostTrainer.run

    def interrupted(self, until, targets, stop):
        run(self, min(until, 500), np.array([-np.inf]), stop)
        self.state.iteration = 0  # as when a kernel is back, but not yet its count
        raise KeyboardInterrupt

    monkeypatch.setattr(HostTrainer, "run", interrupted)
    solution = quietly(X, Y, lam=1e-3, method=method, batch_size=1, tol=1e-9, random_state=0)
    assert solution.status is Status.INTERRUPTED
    assert solution.w.any() == (method == "auto")
    assert len(solution.history) == 1 + (method == "auto")
    assert batchsvm.certify(X, Y, solution.w, solution.alpha, lam=1e-3).gap < 1 + 1e-9


def test_certificates_are_made_where_they_were_asked_for():
    n = len(Y)
    solution = quietly(
        X, Y, lam=0.1, tol=0.05, checkpoints=[50 * n], max_epochs=60, random_state=0
    )  # within tol long before
    assert solution.status is Status.CONVERGED
    assert solution.history.iteration.tolist() == [0, 50 * n]


def test_ctrl_c_while_a_point_is_copied(monkeypatch):
    from batchsvm.engines.state import DualState

    original, calls = DualState.alpha_of, []

    def alpha_of(self, start, stop):
        if start < stop:
            calls.append(start)
        if len(calls) == 4:  # two for each certificate, then one for each copy
            raise KeyboardInterrupt
        return original(self, start, stop)

    monkeypatch.setattr(DualState, "alpha_of", alpha_of)
    solution = quietly(X, Y, lam=1e-4, tol=1e-9, checkpoints=[30])
    assert solution.status is Status.INTERRUPTED
    again = batchsvm.certify(X, Y, solution.w, solution.alpha, lam=1e-4)
    assert again == solution.certificate


def test_a_callback_sees_every_certificate_and_can_stop():
    seen = []

    def callback(checkpoint):
        seen.append(checkpoint)
        assert not checkpoint.w.flags.writeable
        return np.bool_(checkpoint.certificate.relative_gap < 0.2)

    solution = batchsvm.fit(
        X, Y, lam=1e-4, tol=1e-9, method="aggressive", batch_size=1, callback=callback,
        random_state=0,
    )  # fmt: skip
    assert solution.status is Status.STOPPED
    assert len(seen) == len(solution.history)
    assert [c.certificate.primal for c in seen] == solution.history.primal.tolist()
    assert [c.certificate.dual for c in seen] == solution.history.dual.tolist()
    assert reduce(Certificate.joined, [c.certificate for c in seen]) == solution.certificate


def test_the_best_w_and_the_best_alpha_are_returned_not_the_last():
    rng = np.random.default_rng(27)
    data = 1.0 + rng.normal(size=(60, 1))
    y = np.where(rng.random(60) < 0.5, 1.0, -1.0)
    solution = quietly(
        data, y, lam=5e-4, method="aggressive", batch_size=12, max_epochs=30, random_state=11,
        checkpoints=[50, 100],
    )  # fmt: skip
    history, certificate = solution.history, solution.certificate
    best = int(history.primal.argmin()), int(history.dual.argmax())
    assert best[0] != best[1]
    assert certificate.primal == history.primal.min()
    assert certificate.dual == history.dual.max()
    assert certificate.gap == history.gap[-1] < (history.primal - history.dual).min()
    assert batchsvm.certify(data, y, solution.w, solution.alpha, lam=5e-4) == solution.certificate


def test_solutions_survive_pickling():
    solution = batchsvm.fit(X, Y, lam=LAM, method="safe", random_state=0)
    again = pickle.loads(pickle.dumps(solution))
    np.testing.assert_array_equal(again.w, solution.w)
    assert again.certificate == solution.certificate
    assert again.status is solution.status
    assert again.loss == solution.loss
    assert str(again.plan) == str(solution.plan)


def test_skipping_spares_visits_and_changes_nothing_that_is_certified():
    rng = np.random.default_rng(0)
    data = rng.normal(size=(2000, 20))
    y = np.where(data @ rng.normal(size=20) + rng.normal(size=2000) > 0, 1.0, -1.0)
    plain, skipping = (
        batchsvm.fit(data, y, lam=1e-3, method=Safe(skips=skips), batch_size=1, tol=1e-4)
        for skips in (False, True)
    )
    assert skipping.history.iteration[-1] < 0.6 * plain.history.iteration[-1]
    for solution in (plain, skipping):
        again = batchsvm.certify(data, y, solution.w, solution.alpha, lam=1e-3)
        assert again == solution.certificate
        assert again.relative_gap <= 1e-4


def test_solutions_can_be_compared_and_hashed():
    one, two = (batchsvm.fit(X, Y, lam=LAM) for _ in range(2))
    assert one == one
    assert one != two
    assert len({one, two}) == 2


@pytest.mark.parametrize(("loss", "part"), [("logistic", loop.FIRST_GOAL_PART), ("hinge", 1.0)])
def test_where_nothing_is_known_of_p_estimates_of_all_rows_have_a_lower_target(
    loss, part, monkeypatch
):
    """Before a full pass has seen P, the goal is a part of P(0)."""
    X, y = toy(loss)
    targets, run = [], HostTrainer.run
    monkeypatch.setattr(
        HostTrainer, "run", lambda self, *given: targets.append(given[1][0]) or run(self, *given)
    )
    serial = {"tol": 1e-3, "method": "safe", "batch_size": 1, "random_state": 0}
    solution = batchsvm.fit(X, y, loss, LAM, **serial)
    at_zero = solution.history.primal[0]
    assert targets[0] == pytest.approx(part * 1e-3 * at_zero)
    targets.clear()
    warm = batchsvm.fit(X, y, loss, 0.5 * LAM, initial=solution, **serial)
    assert targets[0] == pytest.approx(1e-3 * warm.history.primal[0])
