"""What is shown: plots in scikit-learn's manner, and the report page about a model."""

from batchsvm.displays.panels import on_paper
from batchsvm.displays.plots import ConvergenceDisplay, ScheduleDisplay, SpeedupDisplay

__all__ = ["ConvergenceDisplay", "ScheduleDisplay", "SpeedupDisplay", "on_paper"]
