"""Shape rules: what shape an operation's result has, one file per family of operations.

The declarations in `ir/ops` call these functions from their `shape` and `check` methods. A rule
is a pure function of shapes and attributes that raises `ShapeError` with one sentence. Inferred
shapes carry no layout. Floats of different precision may meet in most rules, as in XLA's own
inference; the verifier forbids that separately, because some pipelines allow it.
"""
