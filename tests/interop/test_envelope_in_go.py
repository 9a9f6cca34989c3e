"""The reader in Go that the documentation has, compiled and run."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path

import pytest

from nsq_anyio.envelope import decode

from ..real_servers import program
from ..servers.build import find_go
from ..test_envelope_readers import DAMAGED, VALID, reader

pytestmark = pytest.mark.timeout(300)  # Go compiles its standard library when its cache is empty

MAIN = """package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
)

type result struct {
	Headers map[string]string
	Payload []byte
	Error   string
}

func main() {
	var bodies [][]byte
	if err := json.NewDecoder(os.Stdin).Decode(&bodies); err != nil {
		panic(err)
	}
	results := []result{}
	for _, body := range bodies {
		headers, payload, err := readEnvelope(body)
		if err != nil {
			results = append(results, result{Error: err.Error()})
		} else {
			results = append(results, result{Headers: headers, Payload: payload})
		}
	}
	json.NewEncoder(os.Stdout).Encode(results)
}

"""


def test_it_reads_what_is_valid_and_refuses_what_is_damaged(tmp_path: Path) -> None:
    source = tmp_path / "main.go"
    source.write_text(MAIN + reader("go", "func readEnvelope"), encoding="utf-8")
    go = find_go(program("nsqd").parent.parent)
    built = tmp_path / "read"
    subprocess.run([go, "build", "-o", str(built), str(source)], cwd=tmp_path, check=True)
    bodies = [*VALID, *DAMAGED]
    given = json.dumps([base64.b64encode(body).decode() for body in bodies])
    done = subprocess.run([built], input=given, capture_output=True, text=True, check=True)
    results = json.loads(done.stdout)
    for body, result in zip(VALID, results[: len(VALID)], strict=True):
        envelope = decode(body)
        assert result["Error"] == ""
        assert result["Headers"] == dict(envelope.headers)
        assert base64.b64decode(result["Payload"] or "") == envelope.payload
    assert {result["Error"] for result in results[len(VALID) :]} == {"malformed envelope, or a later version"}
