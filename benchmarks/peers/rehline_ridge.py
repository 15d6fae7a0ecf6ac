"""rehline's plqERM_Ridge, which stops on a relative duality gap."""

from worker import serve, wide

NAMES = {"hinge": "svm", "squared_hinge": "squared svm"}


class Rehline:
    def __init__(self):
        from rehline import plqERM_Ridge

        self.model = plqERM_Ridge

    def prepare(self, X, y, lam, loss, intercept):
        return wide(X), y, {"C": 1 / (lam * X.shape[0]), "loss": {"name": NAMES[loss]}}

    def fit(self, problem, tol, threads, seed):
        X, y, options = problem
        model = self.model(tol=tol, max_iter=100_000, coordinate_seed=seed, **options)
        return model.fit(X, y).coef_, 0.0


if __name__ == "__main__":
    serve(Rehline)
