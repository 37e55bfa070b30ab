"""The check of a GPU that the settings ask for, on a machine without one."""

import dagster as dg

from codequarry.assets.stages import GPU_CHECK, gpu_result
from codequarry.pipelines.store.device_use import DeviceUse

ASKED = """
[embedding]
device = "cuda"
[indexes]
faiss_gpu = true
faiss_factory = "IVF1,SQ8"
"""


def results_of(run: dg.ExecuteInProcessResult) -> dict[str, dg.AssetCheckEvaluation]:
    return {
        each.asset_key.to_user_string(): each
        for each in run.get_asset_check_evaluations()
        if each.check_name == GPU_CHECK
    }


def test_settings_that_ask_for_no_gpu_have_no_check(first_run):
    bench, run = first_run
    assert run.success
    assert results_of(run) == {}
    (event,) = bench.instance.fetch_materializations(
        dg.AssetRecordsFilter(dg.AssetKey("repository_embeddings"), asset_partitions=["alpha"]), limit=1
    ).records
    metadata = event.asset_materialization.metadata
    assert metadata["device"].value == "cpu"
    assert metadata["texts_per_second"].value > 0
    assert metadata["peak_memory_mb"].value > 20
    assert "device_reason" not in metadata and "gpu_memory_mb" not in metadata


def test_a_gpu_that_is_not_there_warns_and_stops_nothing(workbench):
    workbench.configure("alpha", "beta", more=ASKED)
    run = workbench.reindex()
    assert run.success
    checks = results_of(run)
    assert checks.keys() == {"repository_embeddings", "faiss"}
    for each in checks.values():
        assert (each.passed, each.severity, each.blocking) == (False, dg.AssetCheckSeverity.WARN, False)
        assert "though the settings ask for a GPU" in each.description
    assert "a static encoder adds up rows" in checks["repository_embeddings"].description
    (event,) = workbench.instance.fetch_materializations(dg.AssetKey("faiss"), limit=1).records
    metadata = event.asset_materialization.metadata
    assert metadata["device"].value.startswith("cpu (")
    assert "FAISS" in metadata["device_reason"].value
    again = results_of(workbench.reindex())
    assert all(each.passed for each in again.values())
    assert "was not built again" in again["faiss"].description


def test_a_gpu_that_did_the_work_passes():
    result = gpu_result("faiss", [DeviceUse("building it", "cuda:0", asked=True)], "nothing")
    assert (result.passed, result.description) == (True, "building it ran on cuda:0")
    assert gpu_result("faiss", [], "nothing was built").description == "nothing was built"
