"""Snap ML's SupportVectorMachine."""

from worker import serve


class Snap:
    def __init__(self):
        from snapml import SupportVectorMachine

        self.model = SupportVectorMachine

    def prepare(self, X, y, lam):
        return X, y, lam * X.shape[0]

    def fit(self, problem, tol, threads, seed):
        X, y, regularizer = problem
        model = self.model(
            loss="hinge", regularizer=regularizer, tol=tol, n_jobs=threads, fit_intercept=False,
            max_iter=100_000, random_state=seed,
        )  # fmt: skip
        return model.fit(X, y).coef_


if __name__ == "__main__":
    serve(Snap)
