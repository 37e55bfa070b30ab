"""Commands that measure, compare and judge versions."""
