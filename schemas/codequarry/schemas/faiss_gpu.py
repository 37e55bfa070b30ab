"""What FAISS can do on a GPU: asked of the installed package and the machine, never assumed.

The base install has FAISS for the CPU. With one for the GPU (``faiss-gpu`` or ``faiss-gpu-cuvs`` from conda) the same
calls train, fill and search there; its cloner takes cuVS by itself where it was built with it.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportAttributeAccessIssue=false, reportUnknownParameterType=false
# The stubs are those of FAISS for the CPU.

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import faiss

DISABLED = "FAISS GPU disabled - using CPU"
"""What answers say where a GPU is asked for and there is none."""


def has_gpu() -> bool:
    """Whether the installed FAISS knows GPUs and sees one."""
    import faiss

    return hasattr(faiss, "StandardGpuResources") and hasattr(faiss, "index_cpu_to_gpu") and faiss.get_num_gpus() > 0


def on_gpu(index: faiss.Index) -> faiss.Index | None:
    """A copy of an index on the first GPU; None where there is no GPU or it cannot hold this kind of index."""
    import faiss

    if not has_gpu():
        return None
    resources = faiss.StandardGpuResources()
    try:
        copied = faiss.index_cpu_to_gpu(resources, 0, index)
    except RuntimeError:
        return None
    copied.referenced_objects = [resources]  # they have to live as long as it does
    return copied


def on_cpu(index: faiss.Index) -> faiss.Index:
    """An index of `on_gpu` as one of the CPU, as it is written to a file."""
    import faiss

    return faiss.index_gpu_to_cpu(index)
