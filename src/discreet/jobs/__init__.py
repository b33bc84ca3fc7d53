"""The library behind the commands and estimators that train: from declared facts to a run."""
