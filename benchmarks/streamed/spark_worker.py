"""Runs in Spark's environment, and imports nothing of ours.

Folder, label and lam are its arguments.  Each line of its input is a number of iterations, which it
answers by a line of JSON: the weights and the times of a fit.
"""

import json
import sys
from time import perf_counter

from pyspark.ml.classification import LinearSVC
from pyspark.ml.feature import VectorAssembler
from pyspark.sql import SparkSession

folder, label, lam = sys.argv[1], sys.argv[2], float(sys.argv[3])
session = (
    SparkSession.builder.master("local[2]")
    .config("spark.driver.memory", "6g")
    .config("spark.ui.enabled", "false")
    .config("spark.log.level", "ERROR")
    .getOrCreate()
)
print(json.dumps({"version": session.version}), flush=True)

for line in sys.stdin:
    began = perf_counter()
    table = session.read.parquet(folder)
    names = [name for name in table.columns if name != label]
    rows = VectorAssembler(inputCols=names, outputCol="features").transform(table)
    rows = rows.select("features", label).cache()
    rows.count()
    cached = perf_counter()
    svc = LinearSVC(
        labelCol=label, regParam=lam, maxIter=int(line), tol=0.0, fitIntercept=False,
        standardization=False,
    )  # fmt: skip
    model = svc.fit(rows)
    ended = perf_counter()
    rows.unpersist()
    answer = {
        "seconds": ended - began,
        "cached_seconds": ended - cached,
        "w": model.coefficients.toArray().tolist(),
    }
    print(json.dumps(answer), flush=True)
