"""batchsvm, all defaults; the time includes checks, plan and certificates."""

from worker import serve


class Ours:
    def __init__(self):
        import batchsvm

        self.train = batchsvm.fit

    def prepare(self, X, y, lam):
        return X, y, lam

    def fit(self, problem, tol, threads, seed):
        X, y, lam = problem
        return self.train(X, y, lam=lam, tol=tol, n_jobs=threads, random_state=seed).w


if __name__ == "__main__":
    serve(Ours)
