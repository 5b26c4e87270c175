"""Python of Spark's workers imports pyspark from its folder instead of Spark's archive of it.

Python reads this module at each start, from PYTHONPATH (tests/spark_start.py). Spark puts its zip
file of pyspark in front of the packages; no compiled module is kept for a zip file, so that each
worker would compile pyspark anew for 0.6 s. The package itself, of the same version, lies behind.
"""

import sys

sys.path[:] = [place for place in sys.path if not place.endswith(("pyspark.zip", "-src.zip"))]
