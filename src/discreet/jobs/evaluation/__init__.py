"""Evaluation of a published model on rows declared public: metrics, curves, effects of columns."""
