"""scikit-learn's LinearSVC: LIBLINEAR's dual coordinate descent."""

from worker import serve, wide


class SVC:
    dual = True

    def __init__(self):
        from sklearn.svm import LinearSVC

        self.model = LinearSVC

    def prepare(self, X, y, lam, loss, intercept):
        return wide(X), y, {"C": 1 / (lam * X.shape[0]), "loss": loss}

    def fit(self, problem, tol, threads, seed):
        X, y, options = problem
        # max_iter is raised so that tol alone decides.
        model = self.model(
            tol=tol, dual=self.dual, fit_intercept=False, max_iter=100_000, random_state=seed,
            **options,
        )  # fmt: skip
        return model.fit(X, y).coef_, 0.0


if __name__ == "__main__":
    serve(SVC)
