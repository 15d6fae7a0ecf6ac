"""scikit-learn's LinearSVC(dual=False): LIBLINEAR's Newton method on the primal."""

from linear_svc import SVC
from worker import serve


class PrimalSVC(SVC):
    dual = False


if __name__ == "__main__":
    serve(PrimalSVC)
