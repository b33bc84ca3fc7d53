"""What a published model is worth on rows that are declared public: metrics, curves, effects of columns."""
