"""Multi-core LIBLINEAR; conversion to its format is not in the time."""

from liblinear_common import Liblinear
from worker import serve


class Multicore(Liblinear):
    def threads(self, threads):
        return f" -m {threads}"


if __name__ == "__main__":
    serve(Multicore)
