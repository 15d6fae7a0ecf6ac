"""scikit-learn's LogisticRegression with newton-cholesky, which has a matrix of d x d."""

from logistic_lbfgs import Logistic
from worker import serve


class NewtonCholesky(Logistic):
    solver = "newton-cholesky"


if __name__ == "__main__":
    serve(NewtonCholesky)
