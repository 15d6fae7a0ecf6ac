"""Snap ML's SupportVectorMachine and LogisticRegression, both on the dual."""

from worker import serve


class Snap:
    def __init__(self):
        from snapml import LogisticRegression, SupportVectorMachine

        self.svm, self.logistic = SupportVectorMachine, LogisticRegression

    def prepare(self, X, y, lam, loss, intercept):
        options = {"regularizer": lam * X.shape[0]}
        if loss == "logistic":
            return X, y, self.logistic, options | {"dual": True}
        return X, y, self.svm, options | {"loss": loss}

    def fit(self, problem, tol, threads, seed):
        X, y, model, options = problem
        model = model(
            tol=tol, n_jobs=threads, fit_intercept=False, max_iter=100_000, random_state=seed,
            **options,
        )  # fmt: skip
        return model.fit(X, y).coef_, 0.0


if __name__ == "__main__":
    serve(Snap)
