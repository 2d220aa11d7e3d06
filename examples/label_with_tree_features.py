"""Predict several labels whose inputs act by thresholds: a field over the leaves of random trees."""

from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import ExtraTreesClassifier, RandomTreesEmbedding
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsefield import CRFClassifier

X, y = make_multilabel_classification(n_samples=2000, n_features=20, n_classes=5, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# A leaf is a 0/1 column, so the features stay sparse, and each weight belongs to a region of the inputs.
leaves = RandomTreesEmbedding(n_estimators=50, max_depth=5, random_state=0)
models = {
    "inputs, one regression per label": make_pipeline(StandardScaler(), MultiOutputClassifier(LogisticRegression())),
    "inputs, field": make_pipeline(StandardScaler(), CRFClassifier(l1=3.0)),
    "leaves, one regression per label": make_pipeline(leaves, MultiOutputClassifier(LogisticRegression(C=0.1))),
    "leaves, field": make_pipeline(leaves, CRFClassifier(l1=3.0, l2=10.0)),
    "extra trees": ExtraTreesClassifier(100, random_state=0),
}
for name, model in models.items():
    model.fit(X_train, y_train)
    # The most probable set of labels is another one than the most probable state of each.
    options = {"decode": "joint"} if "field" in name else {}
    print(f"{name:34} all labels right {accuracy_score(y_test, model.predict(X_test, **options)):.1%}")
