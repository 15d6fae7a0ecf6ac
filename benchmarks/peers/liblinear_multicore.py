"""Multi-core LIBLINEAR, dual solvers; conversion to its format is not in the time."""

from liblinear_common import Multicore
from worker import serve

if __name__ == "__main__":
    serve(Multicore)
