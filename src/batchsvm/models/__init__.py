"""Models as plain data: their files, fingerprints of training data, predictions, ONNX."""

from batchsvm.models.container import ModelFileError
from batchsvm.models.model import Model, load, save, solution_of_model

__all__ = ["Model", "ModelFileError", "load", "save", "solution_of_model"]
