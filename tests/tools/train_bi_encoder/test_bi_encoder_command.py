"""The command of the bi-encoder's training, where torch is not installed; with it, tests/models trains one."""

from __future__ import annotations

import sys

import pytest

from tools.train_bi_encoder.__main__ import main


def test_without_torch_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path
) -> None:
    monkeypatch.setattr("tools.train_bi_encoder.__main__.find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["train_bi_encoder", "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "codequarry[transformers]" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
