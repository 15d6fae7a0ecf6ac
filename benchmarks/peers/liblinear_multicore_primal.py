"""Multi-core LIBLINEAR, Newton's method on the primal."""

from liblinear_common import PRIMAL, Multicore
from worker import serve


class Primal(Multicore):
    solvers = PRIMAL


if __name__ == "__main__":
    serve(Primal)
