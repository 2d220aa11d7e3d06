"""Fill in the missing values of a table, and compare with the most frequent value of each column."""

import numpy as np
import pandas as pd
from sklearn.datasets import load_wine

from sparsefield import MarkovField

# Measurements of 178 wines, each as low, middle or high, beside the cultivar.
wine = load_wine(as_frame=True)
table = wine.data.apply(lambda column: pd.qcut(column, 3, labels=["low", "middle", "high"]).astype(str))
table["cultivar"] = wine.target_names[wine.target]

missing = np.random.default_rng(0).random(table.shape) < 0.2
incomplete = table.mask(missing)

field = MarkovField(random_state=0).fit(incomplete)
completed = field.transform(incomplete)
frequent = incomplete.fillna(incomplete.mode().iloc[0])

print(f"{missing.sum()} values are missing; right are")
print(f"  {np.mean(completed.to_numpy()[missing] == table.to_numpy()[missing]):.0%} of those that the field fills in,")
print(f"  {np.mean(frequent.to_numpy()[missing] == table.to_numpy()[missing]):.0%} of the most frequent values.")
