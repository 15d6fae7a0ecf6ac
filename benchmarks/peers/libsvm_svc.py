"""scikit-learn's SVC with a linear kernel: LIBSVM, whose intercept is free."""

import scipy.sparse as sp
from worker import serve, wide


class SVC:
    def __init__(self):
        from sklearn.svm import SVC

        self.model = SVC

    def prepare(self, X, y, lam, loss, intercept):
        return wide(X), y, 1 / (lam * X.shape[0])

    def fit(self, problem, tol, threads, seed):
        X, y, C = problem
        model = self.model(kernel="linear", C=C, tol=tol, cache_size=1000).fit(X, y)
        w = model.coef_.toarray() if sp.issparse(model.coef_) else model.coef_
        return w, model.intercept_[0]


if __name__ == "__main__":
    serve(SVC)
