"""cyanure's Classifier, which stops on a relative duality gap; its intercept is free."""

from worker import serve

# cyanure's squared hinge has a factor of one half.
LOSSES = {"squared_hinge": ("sqhinge", 2.0), "logistic": ("logistic", 1.0)}


class Cyanure:
    def __init__(self):
        from cyanure.estimators import Classifier

        self.model = Classifier

    def prepare(self, X, y, lam, loss, intercept):
        name, factor = LOSSES[loss]
        return X, y, {"loss": name, "lambda_1": lam / factor, "fit_intercept": intercept}

    def fit(self, problem, tol, threads, seed):
        X, y, options = problem
        model = self.model(
            penalty="l2", tol=tol, max_iter=100_000, n_threads=threads, random_state=seed,
            verbose=False, **options,
        )  # fmt: skip
        model.fit(X, y)
        return model.coef_, first(model.intercept_) if options["fit_intercept"] else 0.0


def first(value):
    return float(getattr(value, "flat", [value])[0])


if __name__ == "__main__":
    serve(Cyanure)
