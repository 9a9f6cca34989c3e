"""Merges the metrics of several processes, with a label ``process``."""

from __future__ import annotations

from collections.abc import Mapping

from ...service.endpoint import Families


def merged(texts: Mapping[int, str]) -> bytes:
    """Return the metrics of all processes, each sample with its process's number as a label.

    A label ``process`` of the program itself becomes ``exported_process``, as Prometheus renames labels that
    clash with its own.

    Neither a sum nor a maximum would be right for all gauges, so that choice is left to the query.

    :param texts: the metrics in Prometheus' text format, by the number of the process
    :raises MetricsUnavailable: if the extra ``prometheus`` is not installed
    """
    families = Families()
    if texts:
        from prometheus_client.parser import text_string_to_metric_families

        for number, text in texts.items():
            for family in text_string_to_metric_families(text):
                family.samples = [
                    sample._replace(labels={**_renamed(sample.labels), "process": str(number)})
                    for sample in family.samples
                ]
                families.add(family)
    return families.text()


def _renamed(labels: Mapping[str, str]) -> dict[str, str]:
    renamed = dict(labels)
    if "process" in renamed:
        name = "exported_process"
        while name in renamed:
            name = f"exported_{name}"
        renamed[name] = renamed.pop("process")
    return renamed
