"""Between the fields of a `Model` and the header and arrays of its file.

Decoding believes nothing: whatever a file says is checked, and what does not fit together is
refused with `ModelFileError`, so that a loaded model is one that could have been saved.
"""

from __future__ import annotations

import os
import re
from dataclasses import asdict, fields
from math import inf
from typing import Any

import numpy as np

from batchsvm.core import checks
from batchsvm.core.certificate import Certificate
from batchsvm.core.planning import Plan, PlanRow
from batchsvm.core.spectral import Sigma2
from batchsvm.losses import LOSSES, Loss
from batchsvm.methods import METHODS
from batchsvm.models import container
from batchsvm.models.container import ModelFileError, from_json, to_json
from batchsvm.models.fingerprint import Fingerprint

KIND = "linear model"
HISTORY_FIELDS = (
    "iteration", "epoch", "seconds", "certify_seconds", "primal", "dual", "gap", "beta", "refused",
)  # fmt: skip


ESTIMATES = "estimates"
UNPROVEN = (
    "a bound that includes every rounding error: the file is older than that, its rounding error is"
    " an estimate, and its tol was relative to P(0); certify the model anew to have one"
)
# NumPy gives every word the room of the longest: a file of 3 MB could ask for 33 GB.
MOST_CLASS_BYTES = 1 << 26
NUMERIC_CLASSES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64",
)  # fmt: skip


def _is_known(name: str) -> bool:
    """Whether an array of this name belongs into a model file."""
    return bool(
        re.fullmatch(r"coef|intercept|alpha|(history|estimates)\.(0|[1-9][0-9]{0,8})", name)
    )


def write_model(model: Any, path: str | os.PathLike[str]) -> None:
    arrays = {"coef": _floats(model.coef), "intercept": _floats(model.intercept)}
    if model.alpha is not None:
        arrays["alpha"] = _floats(model.alpha)
    for k, history in enumerate(model.history):
        arrays[f"history.{k}"] = np.array([history[name] for name in HISTORY_FIELDS])
        if len(history[ESTIMATES]):
            arrays[f"estimates.{k}"] = _floats(history[ESTIMATES])
    header = {
        "kind": KIND,
        "library_version": model.library_version,
        "loss": {"name": model.loss_name, "parameters": _loss_parameters(model.loss)},
        "lam": None if model.lam is None else to_json(model.lam),
        "classes": _encode_classes(model.classes),
        "intercept_scaling": float(model.intercept_scaling),
        "certificates": [
            {name: to_json(value) for name, value in asdict(c).items()} for c in model.certificates
        ],
        "statuses": list(model.statuses),
        "method": {"name": model.method, "parameters": _encode_values(model.method_parameters)},
        "batch_size": None if model.batch_size is None else int(model.batch_size),
        "plan": None if model.plan is None else _encode_plan(model.plan),
        "trained_on": model.trained_on._asdict(),
        "zero_based": model.zero_based,
        "feature_names": None if model.feature_names is None else list(model.feature_names),
        "label": model.label,
        "weights": model.weights,
        "class_weights": None
        if model.class_weights is None
        else [float(weight) for weight in model.class_weights],
        "free_intercept": bool(model.free_intercept),
        "history_fields": list(HISTORY_FIELDS),
        "lacks": list(model.lacks),
    }
    container.write(path, header, arrays)


def read_fields(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The fields of the model in a file."""
    header, arrays = container.read(path, _is_known)
    if header.get("kind") != KIND:
        raise ModelFileError(path, f"holds {header.get('kind')!r}, not a {KIND}")
    try:
        return _decode(header, arrays)
    except KeyError as error:
        raise ModelFileError(path, f"has no entry {error}") from None
    except (TypeError, ValueError, AttributeError, OverflowError, IndexError) as error:
        raise ModelFileError(path, f"holds something impossible: {error}") from None


def _decode(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    coef, intercept = _finite("coef", arrays["coef"]), _finite("intercept", arrays["intercept"])
    if coef.ndim != 2 or 0 in coef.shape:
        raise ValueError(f"coef has shape {coef.shape}")
    k, d = coef.shape
    if intercept.shape != (k,):
        raise ValueError(f"intercept has shape {intercept.shape}, not ({k},)")
    classes = _decode_classes(header["classes"])
    if k != (1 if classes is None or classes.size <= 2 else classes.size):
        raise ValueError(f"there are {k} rows of coefficients for these classes")
    trained_on = _decode_fingerprint(header["trained_on"])
    if trained_on.d != d:
        raise ValueError(f"there are {d} coefficients for {trained_on.d} columns")
    alpha = _finite("alpha", arrays["alpha"]) if "alpha" in arrays else None
    if alpha is not None and alpha.shape != (k, trained_on.n):
        raise ValueError(f"alpha has shape {alpha.shape}, not ({k}, {trained_on.n})")
    certificates = tuple(_decode_certificate(entry) for entry in _list(header["certificates"]))
    statuses = tuple(_word(entry) for entry in _list(header["statuses"]))
    if len(certificates) not in (0, k) or len(statuses) not in (0, k):
        raise ValueError(f"there are {len(certificates)} certificates for {k} rows of coefficients")
    name = _word(header["loss"]["name"])
    lam = None if header["lam"] is None else from_json(header["lam"])
    if lam is not None:
        checks.read_lam("lam", lam)
    scaling = from_json(header["intercept_scaling"])
    if not 0 <= scaling < np.inf:
        raise ValueError(f"intercept_scaling is {scaling!r}")
    method, parameters = header["method"]["name"], _decode_values(header["method"]["parameters"])
    if method and method not in METHODS:
        raise ValueError(f"there is no method {method!r}")
    size = header["batch_size"]
    if size is not None:
        checks.whole("batch_size", size, 1, 2**62, "a positive integer")
    return {
        "coef": coef,
        "intercept": intercept,
        "classes": classes,
        "loss": _decode_loss(name, header["loss"]["parameters"]),
        "loss_name": name,
        "lam": lam,
        "trained_on": trained_on,
        "intercept_scaling": scaling,
        "alpha": alpha,
        "certificates": certificates,
        "statuses": statuses,
        "method": _word(method),
        "method_parameters": parameters,
        "batch_size": size,
        "history": _decode_history(header, arrays, k),
        "plan": None if header["plan"] is None else _decode_plan(header["plan"]),
        "zero_based": _decode_base(header.get("zero_based")),  # not in version 1
        "feature_names": _decode_names(header.get("feature_names"), d),
        "label": _decode_column(header.get("label")),
        "weights": _decode_column(header.get("weights")),
        "class_weights": _decode_class_weights(header.get("class_weights"), classes),
        "free_intercept": _decode_flag(header.get("free_intercept", False)),
        "library_version": _word(header["library_version"]),
        "lacks": _decode_lacks(header),
    }


def _floats(array: Any) -> np.ndarray:
    return np.asarray(array, dtype=np.float64)


def _finite(name: str, array: np.ndarray) -> np.ndarray:
    if array.dtype != np.float64 or not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite float64 numbers")
    return array


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"a list was expected, not {type(value).__name__}")
    return value


def _word(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a word was expected, not {value!r}")
    return value


def _encode_values(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: to_json(float(value)) if isinstance(value, float) else value
        for name, value in values.items()
    }


def _decode_values(values: Any) -> dict[str, Any]:
    return {
        name: float(value) if value in ("inf", "-inf", "nan") else _scalar(value)
        for name, value in values.items()
    }


def _scalar(value: Any) -> Any:
    if not isinstance(value, str | int | float | None):
        raise TypeError(f"a number or a word was expected, not {type(value).__name__}")
    return value


def _loss_parameters(loss: Loss | None) -> dict[str, Any]:
    values = {} if loss is None else loss._asdict()  # type: ignore[attr-defined]
    return {name: to_json(v) if isinstance(v, float) else v for name, v in values.items()}


def _decode_loss(name: str, parameters: Any) -> Loss | None:
    if name not in LOSSES:
        return None
    return checks.read_loss(LOSSES[name](**_decode_values(parameters)))


def _encode_classes(classes: np.ndarray | None) -> dict[str, Any] | None:
    if classes is None:
        return None
    classes = np.asarray(classes)
    if classes.dtype.kind in "fiub":
        return {"dtype": classes.dtype.name, "values": classes.tolist()}
    words = classes.tolist()
    if not all(isinstance(word, str) for word in words):
        raise TypeError(
            f"classes must be numbers or words to be saved, not {type(words[0]).__name__}"
        )
    _refuse_long_words(words)
    return {"dtype": "object" if classes.dtype.kind == "O" else "str", "values": words}


def _refuse_long_words(words: list[str]) -> None:
    longest = max(map(len, words), default=0)
    if 4 * longest * len(words) > MOST_CLASS_BYTES:
        raise ValueError(
            f"{len(words):,} classes with names of up to {longest:,} characters take more than"
            f" {MOST_CLASS_BYTES >> 20} MiB"
        )


def _decode_classes(entry: Any) -> np.ndarray | None:
    if entry is None:
        return None
    values, name = _list(entry["values"]), _word(entry["dtype"])
    if name in ("object", "str"):
        words = [_word(value) for value in values]
        _refuse_long_words(words)
        classes = np.array(words, dtype=object if name == "object" else None)
    else:
        if name not in NUMERIC_CLASSES or not all(isinstance(v, int | float) for v in values):
            raise TypeError(f"classes of type {name[:40]} are not numbers or words")
        classes = np.array(values, dtype=name)
        if classes.dtype.kind == "f" and not np.isfinite(classes).all():
            raise ValueError("classes are not finite")
    if classes.ndim != 1 or not 1 <= classes.size == np.unique(classes).size:
        raise ValueError("classes are not distinct labels")
    return classes


def _decode_certificate(entry: Any) -> Certificate:
    if "rounding" in entry:  # before version 3, for primal and dual together
        entry = entry | {"primal_rounding": 0.0, "dual_rounding": entry["rounding"]}
    values = {f.name: from_json(entry[f.name]) for f in fields(Certificate)}
    count = values.pop("support_vectors")
    return Certificate(**values, support_vectors=int(count))


def _decode_lacks(header: dict[str, Any]) -> tuple[str, ...]:
    if "lacks" in header:
        return tuple(_word(entry) for entry in _list(header["lacks"]))
    return (UNPROVEN,) if header["certificates"] else ()


def _decode_fingerprint(entry: Any) -> Fingerprint:
    n, d = (checks.whole(key, entry[key], 0, 2**62, "a count") for key in ("n", "d"))
    return Fingerprint(n, d, None if entry["labels"] is None else _word(entry["labels"]))


def _decode_base(entry: Any) -> bool | None:
    if entry is not None and not isinstance(entry, bool):
        raise TypeError(f"zero_based is {entry!r}")
    return entry


def _decode_names(entry: Any, d: int) -> tuple[str, ...] | None:
    if entry is None:
        return None
    names = tuple(_word(name) for name in _list(entry))
    if not len(names) == len(set(names)) == d:
        raise ValueError(f"there are {len(set(names))} names for {d} columns")
    return names


def _decode_column(entry: Any) -> str | None:
    return None if entry is None else _word(entry)


def _decode_flag(entry: Any) -> bool:
    if not isinstance(entry, bool):
        raise TypeError(f"true or false was expected, not {entry!r}")
    return entry


def _decode_class_weights(entry: Any, classes: np.ndarray | None) -> np.ndarray | None:
    if entry is None:
        return None
    weights = np.array([from_json(value) for value in _list(entry)], dtype=np.float64)
    if classes is None or weights.shape != classes.shape:
        raise ValueError(f"there are {weights.size} class weights for these classes")
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError("class weights are not finite numbers from 0 on")
    return weights


def _encode_plan(plan: Plan) -> dict[str, Any]:
    sigma2 = plan.sigma2
    return {
        "n": plan.n, "d": plan.d, "lam": plan.lam, "tol": plan.tol,
        "sigma2": {
            "value": float(sigma2), "how": sigma2.how,
            "failure_probability": to_json(sigma2.failure_probability),
        },
        "batch_size": int(plan.batch_size), "workers": plan.workers, "reason": plan.reason,
        "batches": plan.batches, "method": plan.method, "fallback": plan.fallback,
        "is_trial": plan.is_trial,
        "table": [[to_json(value) for value in row] for row in plan.table],
    }  # fmt: skip


def _decode_plan(entry: Any) -> Plan:
    found = entry["sigma2"]
    sigma2 = Sigma2(
        from_json(found["value"]), _word(found["how"]), from_json(found["failure_probability"])
    )
    table = [_plan_row([from_json(value) for value in _list(row)]) for row in _list(entry["table"])]
    counts = ("n", "d", "batch_size", "workers")
    n, d, size, workers = (checks.whole(k, entry[k], 0, 2**62, "a count") for k in counts)
    lam, tol = from_json(entry["lam"]), from_json(entry["tol"])
    batches = checks.whole("batches", entry.get("batches", 1), 1, 2**62, "a count")
    reason = _word(entry["reason"])
    method, fallback = (_word(entry.get(key, "")) for key in ("method", "fallback"))
    is_trial = entry.get("is_trial", fallback != "") is True
    return Plan(
        n, d, lam, tol, sigma2, size, workers, reason, table, batches, method, fallback, is_trial
    )


def _plan_row(values: list[float]) -> PlanRow:
    b, beta, speedup, *counts = values
    return PlanRow(int(b), beta, speedup, *(c if c == inf else int(c) for c in counts))


def _decode_history(
    header: dict[str, Any], arrays: dict[str, np.ndarray], k: int
) -> tuple[dict[str, np.ndarray], ...]:
    listed = sum(name.startswith("history.") for name in arrays)
    if listed not in (0, k):
        raise ValueError(f"there are {listed} histories for {k} rows of coefficients")
    names = [_word(name) for name in _list(header["history_fields"])]
    found: list[dict[str, np.ndarray]] = []
    while f"history.{len(found)}" in arrays:
        table = arrays[f"history.{len(found)}"]
        if table.ndim != 2 or table.shape[0] != len(names) or table.dtype != np.float64:
            raise ValueError(f"the history has shape {table.shape} for {len(names)} fields")
        history = dict(zip(names, table, strict=True))
        own = {name: history[name] for name in HISTORY_FIELDS}
        own[ESTIMATES] = _decode_estimates(arrays.get(f"estimates.{len(found)}"))
        found.append(own)
    if len(found) != listed:
        raise ValueError(f"there is no array 'history.{len(found)}'")
    return tuple(found)


def _decode_estimates(table: np.ndarray | None) -> np.ndarray:
    """The gaps that epochs have shown; files of older versions have none."""
    if table is None:
        return np.zeros((0, 2))
    if table.ndim != 2 or table.shape[1] != 2 or table.dtype != np.float64:
        raise ValueError(f"the estimates have shape {table.shape}")
    return table
