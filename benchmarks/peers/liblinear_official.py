"""LIBLINEAR's own Python package, dual solvers; conversion to its format is not in the time."""

from liblinear_common import Liblinear
from worker import serve

if __name__ == "__main__":
    serve(Liblinear)
