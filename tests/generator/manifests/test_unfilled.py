"""Placeholders: one note per file, and nothing else is hidden by it."""

from __future__ import annotations

from pathlib import Path

from trainwright.manifests.run import ManifestOptions, check

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: llm}
spec:
  parallelism: $NODES
  backoffLimit: many
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: train
          image: ${IMAGE}
          command: [bash, -c, "echo $HOME"]
          resources:
            limits:
              nvidia.com/gpu: $GPUS
"""


def _found(folder: Path, text: str) -> dict[str, list[str]]:
    (folder / "job.yaml").write_text(text, encoding="utf-8")
    found = check((str(folder),), ManifestOptions(today="2026-01-01"))
    lines: dict[str, list[str]] = {}
    for finding in found.findings:
        lines.setdefault(finding.severity.value, []).append(f"{finding.message} {finding.remedy}")
    return lines


def test_they_are_one_note_and_other_mistakes_stay(tmp_path: Path) -> None:
    found = _found(tmp_path, JOB)
    (note,) = found["note"]
    assert note.startswith("not filled in: ")
    assert {"$NODES", "$GPUS"} <= {word.strip(",;") for word in note.split()}
    assert "envsubst < FILE" in note
    assert "$HOME" not in note
    (error,) = found["error"]
    assert '"many"' in error


def test_those_that_people_replace_name_no_tool(tmp_path: Path) -> None:
    (note,) = _found(tmp_path, JOB.replace("$NODES", "<NODES>"))["note"]
    assert "<NODES>" in note
    assert "envsubst" not in note


def test_a_variable_that_any_text_would_do_for_is_named(tmp_path: Path) -> None:
    written = """env: [{name: HF_TOKEN, value: <HF_token>}]
          env:
            - name: BUCKET
              value: "<your bucket>"  # of the team
            - {name: PAD, value: <pad>}
            - {name: POD, value: $(BUCKET)}
"""
    filled = JOB.replace("$NODES", "2").replace("$GPUS", "8").replace("${IMAGE}", "a/b:1")
    text = filled.replace("command:", f"{written.split(chr(10), 1)[1].strip()}\n          command:")
    flow = filled.replace("command:", f"{written.split(chr(10), 1)[0]}\n          command:")
    (note,) = _found(tmp_path, text)["note"]
    assert note == "not filled in: <your bucket> Write the values, and check again."
    (note,) = _found(tmp_path, flow)["note"]
    assert note.startswith("not filled in: <HF_token> ")


def test_a_file_without_any_has_no_note(tmp_path: Path) -> None:
    filled = JOB.replace("$NODES", "2").replace("$GPUS", "8").replace("${IMAGE}", "a/b:1")
    assert "note" not in _found(tmp_path, filled)
