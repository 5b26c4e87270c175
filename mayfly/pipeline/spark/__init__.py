"""The parts of a pipeline that run on Apache Spark; `mayfly.spark` has the public names."""
