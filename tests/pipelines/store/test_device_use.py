"""Sentences about devices."""

from __future__ import annotations

from codequarry.pipelines.store.device_use import DeviceUse, is_gpu, peak_memory_mb


def test_a_fall_back_needs_a_wish_and_a_reason() -> None:
    uses = [DeviceUse("it", "cpu", asked, reason) for asked in (False, True) for reason in ("", "no driver")]
    assert [use.fell_back for use in uses] == [False, False, False, True]
    assert uses[2].sentence() == "it ran on cpu"
    assert uses[3].sentence() == "it ran on cpu, though the settings ask for a GPU: no driver"


def test_devices_that_are_gpus() -> None:
    assert [name for name in ("", "cpu", "cpu:0", "cuda", "cuda:1", "mps") if is_gpu(name)] == ["cuda", "cuda:1", "mps"]


def test_peak_memory_is_in_megabytes() -> None:
    assert 20 < peak_memory_mb() < 100_000
