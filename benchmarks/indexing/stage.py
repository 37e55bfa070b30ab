"""One stage in this process, and what it took: ``python -m benchmarks.indexing.stage chunk|scip SETTINGS-AS-JSON``."""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
from pathlib import Path
from time import sleep

from codequarry.pipelines.scip.stage import scip_repository
from codequarry.pipelines.syntax.stage import chunk_repository
from codequarry.schemas.settings.load import Settings


def main() -> None:
    """Print JSON: CPU seconds with those of ended children, peak memory in MB of this process and of its children."""
    stage, settings = sys.argv[1], Settings.model_validate_json(sys.argv[2])
    peaks: dict[str, float] = {}
    threading.Thread(target=_watch, args=(peaks,), daemon=True).start()
    before = _cpu()
    if stage == "chunk":
        report = chunk_repository("bench", settings)
        figures = {"files": report.files, "rows": report.chunks}
    else:
        figures = {"rows": scip_repository("bench", settings).occurrences}
    figures |= {"cpu": _cpu() - before, "peak": _peak(os.getpid()), "worker_peak": max(peaks.values(), default=0.0)}
    print(json.dumps(figures))


def _watch(peaks: dict[str, float]) -> None:
    """The kernel keeps each process's peak, until it ends: a look now and then is enough."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    while True:
        for child in children.read_text().split():
            peaks[child] = max(peaks.get(child, 0.0), _peak(int(child)))
        sleep(0.05)


def _peak(process: int) -> float:
    try:
        status = Path(f"/proc/{process}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):  # it has just ended
        return 0.0


def _cpu() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    main()
