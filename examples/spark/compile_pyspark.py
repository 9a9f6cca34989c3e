"""Compile the zips from which Spark's Python processes import PySpark, so that each of them starts sooner.

Run it with the Python that runs PySpark, by whoever may write to Spark's directory.
"""

import compileall
import os
import py_compile
import shutil
import tempfile
from pathlib import Path

import pyspark


def compile_zip(path: Path) -> None:
    """Put the bytecode of each module beside it, and replace the zip by the new one."""
    with tempfile.TemporaryDirectory(dir=path.parent) as directory:
        content, built = Path(directory, "content"), Path(directory, "built")
        shutil.unpack_archive(path, content)
        compileall.compile_dir(
            content,
            quiet=2,
            legacy=True,  # beside the source, since Python looks for no __pycache__ in a zip
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
            stripdir=str(content),
            prependdir=str(path),
            workers=0,  # as many as there are cores
        )
        Path(shutil.make_archive(str(built), "zip", content)).replace(path)


if __name__ == "__main__":
    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    for found in sorted(Path(home, "python", "lib").glob("*.zip")):
        compile_zip(found)
        print(found)
