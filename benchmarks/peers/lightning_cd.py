"""lightning's LinearSVC: dual coordinate descent with shrinking, its fastest for the hinge."""

from worker import serve, wide


class Lightning:
    def __init__(self):
        from lightning.classification import LinearSVC

        self.model = LinearSVC

    def prepare(self, X, y, lam, loss, intercept):
        return wide(X), y, {"C": 1 / (lam * X.shape[0]), "loss": loss}

    def fit(self, problem, tol, threads, seed):
        X, y, options = problem
        model = self.model(tol=tol, max_iter=100_000, random_state=seed, **options)
        return model.fit(X, y).coef_, 0.0


if __name__ == "__main__":
    serve(Lightning)
