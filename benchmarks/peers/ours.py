"""batchsvm, all defaults; the time includes checks, plan and certificates.

`fit` trains without an intercept.  A free intercept is that of the estimator, whose own checks
are in the time as well.
"""

from worker import serve


class Ours:
    def __init__(self):
        import batchsvm

        self.train, self.estimator = batchsvm.fit, batchsvm.BatchSVC

    def prepare(self, X, y, lam, loss, intercept):
        return X, y, {"lam": lam, "loss": loss}, intercept

    def fit(self, problem, tol, threads, seed):
        X, y, options, intercept = problem
        options = {**options, "tol": tol, "n_jobs": threads, "random_state": seed}
        if not intercept:
            return self.train(X, y, **options).w, 0.0
        model = self.estimator(intercept="free", **options).fit(X, y)
        return model.coef_, float(model.intercept_[0])


if __name__ == "__main__":
    serve(Ours)
