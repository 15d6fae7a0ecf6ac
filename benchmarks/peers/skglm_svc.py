"""skglm's LinearSVC: coordinate descent on the dual with working sets; compiled by Numba."""

from worker import serve, wide


class Skglm:
    def __init__(self):
        from skglm import LinearSVC

        self.model = LinearSVC

    def prepare(self, X, y, lam, loss, intercept):
        return wide(X), y, 1 / (lam * X.shape[0])

    def fit(self, problem, tol, threads, seed):
        X, y, C = problem
        model = self.model(C=C, tol=tol, fit_intercept=False, max_iter=1000)
        return model.fit(X, y).coef_, 0.0


if __name__ == "__main__":
    serve(Skglm)
