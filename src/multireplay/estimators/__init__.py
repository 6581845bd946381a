"""scikit-learn estimators: rows in time order in, predictions out."""

from multireplay.estimators.classifier import MERClassifier
from multireplay.estimators.dependence import Dependence
from multireplay.estimators.regressors import MERPoissonRegressor, MERRegressor
from multireplay.estimators.value import MERValueRegressor

__all__ = ["Dependence", "MERClassifier", "MERPoissonRegressor", "MERRegressor", "MERValueRegressor"]
