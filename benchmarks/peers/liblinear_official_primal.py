"""LIBLINEAR's own Python package, Newton's method on the primal."""

from liblinear_common import PRIMAL, Liblinear
from worker import serve


class Primal(Liblinear):
    solvers = PRIMAL


if __name__ == "__main__":
    serve(Primal)
