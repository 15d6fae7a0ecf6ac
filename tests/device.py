"""An engine with a memory of its own, as far as the rest of the library can tell: the reference
engine, whose dual points count how often they are brought to the host."""

from __future__ import annotations

from batchsvm.engines import place_on

GONE = "alpha is gone: its data set is closed; read Solution.alpha before"


class DeviceDual:
    """A dual point in that memory."""

    def __init__(self, inside, data):
        self.inside, self.data = inside, data

    def fetch(self):
        if self.data.closed and not self.data.duals_outlive:
            raise ValueError(GONE)
        self.data.fetches.append(self.inside.alpha.shape)
        return self.inside.alpha.copy()

    def only(self, k):
        return DeviceDual(self.inside.only(k), self.data)

    def __getstate__(self):
        raise TypeError("memory of a device cannot be pickled")


class DeviceTrainer:
    """A trainer that gives its best dual points as handles."""

    def __init__(self, inside, data):
        self.inside, self.data, self.kept = inside, data, {"primal": 0, "dual": 0}

    def __getattr__(self, name):
        return getattr(self.inside, name)

    def start(self, schedule, dual=None):
        self.inside.start(schedule, None if dual is None else dual.inside)

    def keep_primal(self, W, which):
        self.kept["primal"] += 1
        self.inside.keep_primal(W, which)

    def keep_dual(self, which):
        self.kept["dual"] += 1
        self.inside.keep_dual(which)

    def best(self):
        W, dual = self.inside.best()
        return W, DeviceDual(dual, self.data)


class DeviceDataset:
    """Placed data; `fetches` has the shape of each alpha that was brought to the host, `starts`
    that of each alpha that was brought to the device."""

    def __init__(self, X, jobs=1):
        self.inside = place_on("reference", X, jobs)
        self.fetches, self.starts, self.trainers = [], [], []
        self.closed = self.duals_outlive = False

    def __getattr__(self, name):
        return getattr(self.inside, name)

    def trainer(self, problem):
        self.trainers.append(DeviceTrainer(self.inside.trainer(problem), self))
        return self.trainers[-1]

    def dual(self, problem, alpha=None, project=True):
        if alpha is not None:
            self.starts.append(alpha.shape)
        return DeviceDual(self.inside.dual(problem, alpha, project), self)

    def owns(self, dual):
        return isinstance(dual, DeviceDual) and dual.data is self

    def joined_dual(self, duals):
        return DeviceDual(self.inside.joined_dual([dual.inside for dual in duals]), self)

    def balanced(self, problem, dual):
        return DeviceDual(self.inside.balanced(problem, dual.inside), self)

    def sums(self, problem, W, dual):
        return self.inside.sums(problem, W, dual.inside)

    def combination(self, problem, dual):
        return self.inside.combination(problem, dual.inside)

    def point_sums(self, problem, W, dual):
        return self.inside.point_sums(problem, W, dual.inside)

    def share(self, jobs):
        return self

    def close(self):
        self.closed = True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass
