"""Models as plain data: their files, fingerprints of training data, predictions, ONNX."""

from batchsvm.models.container import ModelFileError
from batchsvm.models.model import Model, load, save, solution_of_model
from batchsvm.models.predict_parts import PredictedPart, predict_parts

__all__ = [
    "Model",
    "ModelFileError",
    "PredictedPart",
    "load",
    "predict_parts",
    "save",
    "solution_of_model",
]
