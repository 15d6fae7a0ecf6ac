"""lightning's SDCAClassifier, which stops on a duality gap."""

from worker import serve, wide


class LightningSDCA:
    def __init__(self):
        from lightning.classification import SDCAClassifier

        self.model = SDCAClassifier

    def prepare(self, X, y, lam, loss, intercept):
        return wide(X), y, lam

    def fit(self, problem, tol, threads, seed):
        X, y, lam = problem
        model = self.model(
            alpha=lam, l1_ratio=0, loss="hinge", tol=tol, max_iter=100_000, random_state=seed
        )
        return model.fit(X, y).coef_, 0.0


if __name__ == "__main__":
    serve(LightningSDCA)
