"""The pipeline on Apache Spark; `mayfly.spark` has the public names."""
