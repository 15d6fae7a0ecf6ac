"""
Text classification from raw documents
======================================

Which library does a docstring come from? The documents are the docstrings of the functions and
classes of NumPy, SciPy and scikit-learn, with the names of the libraries removed. A pipeline turns
them into sparse rows and trains one certified model per library.
"""

import importlib
import inspect
import re

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from batchsvm import BatchSVC

MODULES = {
    "NumPy": ("numpy", "numpy.linalg", "numpy.fft", "numpy.random"),
    "SciPy": ("scipy.linalg", "scipy.optimize", "scipy.signal", "scipy.special"),
    "scikit-learn": ("sklearn.linear_model", "sklearn.metrics", "sklearn.preprocessing"),
}
documents, libraries = [], []
for library, modules in MODULES.items():
    found = set()
    for name in modules:
        module = importlib.import_module(name)
        for public in dir(module):
            text = inspect.getdoc(getattr(module, public)) or ""
            if not public.startswith("_") and len(text) > 200:
                found.add(re.sub(r"(?i)\b(np|numpy|scipy|sklearn|scikit-learn)\b", " ", text))
    documents += sorted(found)
    libraries += [library] * len(found)
print(f"{len(documents)} documents")

# %%
# The rows are CSR matrices in float32, which the estimator uses in place.

train, test, y_train, y_test = train_test_split(
    documents, libraries, test_size=0.3, stratify=libraries, random_state=0
)
vectorizer = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2, dtype=np.float32)
model = make_pipeline(vectorizer, BatchSVC(lam=1e-4, random_state=0)).fit(train, y_train)
print(f"{len(vectorizer.vocabulary_):,} columns, accuracy {model.score(test, y_test):.3f}")
print(f"every class is proven to {model[-1].certificate_.relative_gap:.1e} of its objective")
_ = ConfusionMatrixDisplay.from_estimator(model, test, y_test, colorbar=False)

# %%
# The words with the largest coefficients:

words = vectorizer.get_feature_names_out()
figure, axes = plt.subplots(1, 3, figsize=(9, 3.4), layout="constrained")
for axis, name, coefficients in zip(axes, model.classes_, model[-1].coef_, strict=True):
    top = np.argsort(coefficients)[-10:]
    axis.barh(words[top], coefficients[top], color="tab:blue")
    axis.set_title(name)
    axis.tick_params(axis="y", labelsize=8)
