"""Ready-made pipelines, as functions, for ``nsq-anyio pipeline`` and for spark-submit of ``__main__.py``."""

from __future__ import annotations

from .archive import archive
from .metrics import metrics
from .query import PipelineFailed, Progress, Summary, spark_errors_explained
from .replay import replay

__all__ = ["PipelineFailed", "Progress", "Summary", "archive", "metrics", "replay", "spark_errors_explained"]
