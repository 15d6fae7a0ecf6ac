"""scikit-learn's LogisticRegression, whose intercept is free; lbfgs is its default solver.

The threads are those of BLAS, which dense rows use.
"""

from worker import serve


class Logistic:
    solver = "lbfgs"

    def __init__(self):
        from sklearn.linear_model import LogisticRegression
        from threadpoolctl import threadpool_limits

        self.model, self.limits = LogisticRegression, threadpool_limits

    def prepare(self, X, y, lam, loss, intercept):
        return X, y, {"C": 1 / (lam * X.shape[0]), "fit_intercept": intercept}

    def fit(self, problem, tol, threads, seed):
        X, y, options = problem
        with self.limits(threads):
            model = self.model(solver=self.solver, tol=tol, max_iter=100_000, **options).fit(X, y)
        return model.coef_, float(model.intercept_[0])


if __name__ == "__main__":
    serve(Logistic)
