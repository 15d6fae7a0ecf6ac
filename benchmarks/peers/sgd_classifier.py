"""scikit-learn's SGDClassifier; the number of epochs says how far it goes.

Iterates are averaged over the second half of the run, which gets closest to the optimum;
its `tol` watches the training loss and says little about that.
"""

from worker import serve


class SGD:
    def __init__(self):
        from sklearn.linear_model import SGDClassifier

        self.model = SGDClassifier

    def prepare(self, X, y, lam):
        return X, y, lam

    def fit(self, problem, epochs, threads, seed):
        X, y, lam = problem
        epochs = int(epochs)
        model = self.model(
            loss="hinge", alpha=lam, fit_intercept=False, max_iter=epochs, tol=None,
            average=max(1, epochs * X.shape[0] // 2), random_state=seed,
        )  # fmt: skip
        return model.fit(X, y).coef_


if __name__ == "__main__":
    serve(SGD)
