"""Overrides from the environment: the names that are known are those that are read, and others are pointed out."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.main import main
from cli.run.stray_variable import known_variables, strangers
from node.runtime.config import ConfigError, parse_config
from node.runtime.exit_code import ExitCode


def document() -> dict[str, Any]:
    """A config that is valid."""
    peer = {"id": "n1", "raft": "127.0.0.1:7500", "http": "127.0.0.1:7400"}
    return {
        "node_id": "n1",
        "data_dir": "d",
        "peers": [peer],
        "http": {"listen": peer["http"]},
        "raft": {"listen": peer["raft"]},
    }


#: Directories: any text is one.
ANY_TEXT = {"HOURWHEEL_DATA_DIR", "HOURWHEEL_BACKUP_DIRECTORY", "HOURWHEEL_EXPORT_TO"}


@pytest.mark.parametrize("name", sorted(set(known_variables()) - ANY_TEXT))
def test_every_known_variable_is_read(name: str) -> None:
    """A value that no key takes is refused, by the variable's name or by what was found."""
    with pytest.raises(ConfigError, match=f"{name}|no value at all|NO VALUE"):
        parse_config(document(), {name: "no value at all"})


def test_text_and_tables_are_known_too() -> None:
    """One of each kind."""
    assert {"HOURWHEEL_DATA_DIR", "HOURWHEEL_STORAGE_CHECKPOINT_S", "HOURWHEEL_RAFT_LISTEN"} <= set(known_variables())
    assert "HOURWHEEL_PEERS" not in known_variables()


def test_strangers_are_named_with_the_nearest() -> None:
    """A misspelt one; ours for the client, and those of others, are not mentioned."""
    environ = {"HOURWHEEL_STORAGE_CHECKPOINTS": "60", "HOURWHEEL_URL": "u", "HOURWHEEL_RAFT_TRUST_MS": "1", "HOME": "/"}
    assert strangers(environ) == [
        "HOURWHEEL_STORAGE_CHECKPOINTS is no setting and is ignored; did you mean HOURWHEEL_STORAGE_CHECKPOINT_S?"
    ]


def test_serve_says_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On stderr, whatever becomes of the start."""
    monkeypatch.setenv("HOURWHEEL_HTP_LISTEN", "127.0.0.1:1")
    result = CliRunner().invoke(main, ["serve", "--config", str(tmp_path / "none.toml")])
    assert result.exit_code == ExitCode.CONFIG
    assert "HOURWHEEL_HTP_LISTEN is no setting and is ignored; did you mean HOURWHEEL_HTTP_LISTEN?" in result.stderr
