"""lightning's LinearSVC: dual coordinate descent with shrinking, its fastest for the hinge."""

from worker import serve


class Lightning:
    def __init__(self):
        from lightning.classification import LinearSVC

        self.model = LinearSVC

    def prepare(self, X, y, lam):
        return X, y, 1 / (lam * X.shape[0])

    def fit(self, problem, tol, threads, seed):
        X, y, C = problem
        model = self.model(C=C, loss="hinge", tol=tol, max_iter=100_000, random_state=seed)
        return model.fit(X, y).coef_


if __name__ == "__main__":
    serve(Lightning)
