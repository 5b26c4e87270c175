"""A SPARK_HOME without PySpark's archives, so that Python workers import PySpark's own files.

Spark puts ``SPARK_HOME/python/lib/pyspark.zip`` before everything in the path of its workers. What
is imported from an archive is compiled in each worker, a second of processor time. Each task also
reads the list of files in the archive anew, 0.15 s (measured with Spark 4.3, Python 3.11). Where
PySpark is a package of the workers' Python, the archive has the same modules and is not needed.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import pyspark

from mayfly.pipeline.spark.jvm import cache_folder

_ARCHIVES = Path("python", "lib", "pyspark.zip")


def spark_home() -> Path:
    """Return a folder for SPARK_HOME for workers that run this Python on this machine.

    It has links to all that PySpark's package has, but for its archives; it is made once, in the
    folder of caches. Returns the package itself if it has no archives.
    """
    package = Path(pyspark.__file__).parent
    if not (package / _ARCHIVES).exists():
        return package
    # Two environments may hold the same version at two places, so the place is in the name.
    place = hashlib.sha256(bytes(package)).hexdigest()[:8]
    home = cache_folder() / f"spark-{pyspark.__version__}-{place}"
    if not home.is_dir():
        home.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f"{home.name}-", dir=home.parent))
        for name in ("bin", "jars"):
            (made / name).symlink_to(package / name)
        _move_into_place(made, home)
    return home


def _move_into_place(made: Path, home: Path) -> None:
    """Rename the folder ``made`` to ``home``; it is removed if another process was faster."""
    try:
        made.rename(home)
    except OSError:
        for link in made.iterdir():
            link.unlink()
        made.rmdir()
        if not home.is_dir():
            raise
