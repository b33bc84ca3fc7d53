"""diffprivlib for table_quality.py, in an environment of its own: table_peers.py TABLE.npz KIND EPSILON SEED."""

from __future__ import annotations

import math
import sys
import warnings
from pathlib import Path

import numpy as np
from diffprivlib import models

warnings.simplefilter("ignore")
path, kind, epsilon, seed = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
table = np.load(path)
train, test, targets = table["train"], table["test"], table["targets"]
box = (-np.ones(train.shape[1]), np.ones(train.shape[1]))
if kind == "logistic":  # rows of norm 1, as its bound on norms asks for
    train, test = (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9) for rows in (train, test))
    model = models.LogisticRegression(epsilon=epsilon, data_norm=1.0, random_state=seed, max_iter=1000)
elif kind == "bayes":
    model = models.GaussianNB(epsilon=epsilon, bounds=box, random_state=seed)
elif kind == "forest":
    classes = list(range(int(table["classes"])))
    depth = max(3, min(8, round(math.log2(len(train))) - 4))
    model = models.RandomForestClassifier(
        n_estimators=10, max_depth=depth, epsilon=epsilon, bounds=box, classes=classes, random_state=seed
    )
else:
    bounds = tuple(float(bound) for bound in table["bounds"])
    model = models.LinearRegression(epsilon=epsilon, bounds_X=box, bounds_y=bounds, random_state=seed)
np.save(path.with_name("said.npy"), model.fit(train, targets).predict(test))
