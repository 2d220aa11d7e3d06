"""Predict two labels at once: each helps to predict the other."""

import pandas as pd
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sparsefield import CRFClassifier

digits = load_digits()
pixels = pd.DataFrame(digits.data > 7).add_prefix("pixel ")
pixels = pixels.loc[:, pixels.mean().between(0.05, 0.95)]
labels = pd.DataFrame({"digit": digits.target, "is even": digits.target % 2 == 0})
train, test, train_labels, test_labels = train_test_split(pixels, labels, test_size=0.3, random_state=0)

model = CRFClassifier(l1=2.0).fit(train, train_labels)
predicted = pd.DataFrame(model.predict(test), columns=labels.columns, index=test.index)
for name in labels:
    print(f"{name}: {(predicted[name] == test_labels[name]).mean():.1%} right")
