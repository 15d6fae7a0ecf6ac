"""scikit-learn's LinearSVC: LIBLINEAR's dual coordinate descent."""

from worker import serve


class SVC:
    def __init__(self):
        from sklearn.svm import LinearSVC

        self.model = LinearSVC

    def prepare(self, X, y, lam):
        return X, y, 1 / (lam * X.shape[0])

    def fit(self, problem, tol, threads, seed):
        X, y, C = problem
        # max_iter is raised so that tol alone decides.
        model = self.model(
            loss="hinge", C=C, tol=tol, fit_intercept=False, max_iter=100_000, random_state=seed
        )
        return model.fit(X, y).coef_


if __name__ == "__main__":
    serve(SVC)
