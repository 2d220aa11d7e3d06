"""This package holds out cells, predicts them, and scores predictions and their calibration."""
