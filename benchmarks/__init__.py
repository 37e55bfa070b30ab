"""Benchmarks: ``make bench`` runs all, ``python -m benchmarks census search`` some. Nothing here is asserted on."""
