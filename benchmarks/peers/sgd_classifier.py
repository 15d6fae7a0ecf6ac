"""scikit-learn's SGDClassifier, whose intercept is free; the number of epochs says how far it goes.

Iterates are averaged over the second half of the run, which gets closest to the optimum;
its `tol` watches the training loss and says little about that.
"""

from worker import serve

LOSSES = {"hinge": "hinge", "squared_hinge": "squared_hinge", "logistic": "log_loss"}


class SGD:
    def __init__(self):
        from sklearn.linear_model import SGDClassifier

        self.model = SGDClassifier

    def prepare(self, X, y, lam, loss, intercept):
        return X, y, {"alpha": lam, "loss": LOSSES[loss], "fit_intercept": intercept}

    def fit(self, problem, epochs, threads, seed):
        X, y, options = problem
        epochs = int(epochs)
        model = self.model(
            max_iter=epochs, tol=None, average=max(1, epochs * X.shape[0] // 2),
            random_state=seed, **options,
        )  # fmt: skip
        model.fit(X, y)
        return model.coef_, float(model.intercept_[0])


if __name__ == "__main__":
    serve(SGD)
