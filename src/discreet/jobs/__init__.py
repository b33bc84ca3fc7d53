"""What the commands and estimators that train have in common: from declared facts to a run."""
