"""Writes the generated folders of the library, or checks that the committed ones are fresh."""

from __future__ import annotations

import argparse
import filecmp
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from google.protobuf import descriptor_pb2
from grpc_tools import protoc

import blocking
import records

FOLDER = Path(__file__).resolve().parent.parent
PROTOS = FOLDER.parent.parent / "proto"
SOURCE = FOLDER / "src" / "borough"
# Agents have no need of this library.
EXCLUDED = {"agent.proto"}


def protos() -> list[str]:
    """The protos of the API, as their imports name them."""
    found = sorted((PROTOS / "borough" / "v1").glob("*.proto"))
    return [str(path.relative_to(PROTOS)) for path in found if path.name not in EXCLUDED]


def compile_messages(target: Path) -> None:
    """Compiles the protos: messages with their types, records, and the table of methods."""
    with tempfile.TemporaryDirectory() as scratch:
        described = Path(scratch) / "described"
        arguments = [
            "protoc",
            f"--proto_path={PROTOS}",
            f"--python_out={scratch}",
            f"--pyi_out={scratch}",
            f"--descriptor_set_out={described}",
            "--include_source_info",
            *protos(),
        ]
        if protoc.main(arguments) != 0:
            sys.exit("the protos do not compile")
        shutil.copytree(Path(scratch) / "borough" / "v1", target)
        files = descriptor_pb2.FileDescriptorSet.FromString(described.read_bytes())
    for name, text in records.modules(files).items():
        (target / name).write_text(text, encoding="utf-8")


def generated(target: Path) -> dict[str, Path]:
    """Writes both folders below `target`."""
    compile_messages(target / "v1")
    blocking.convert(SOURCE / "_async", target / "_sync")
    ruff = [sys.executable, "-m", "ruff"]
    settings = ["--quiet", f"--config={FOLDER / 'pyproject.toml'}"]
    subprocess.run([*ruff, "check", "--select=I", "--fix", *settings, str(target / "_sync")], check=True)
    written = [str(path) for path in (target / "v1").glob("*.py") if not path.stem.endswith("_pb2")]
    unused = ["--isolated", "--select=F401", "--fix", "--per-file-ignores=__init__.py:F401", "--quiet"]
    subprocess.run([*ruff, "check", *unused, *written], check=True)
    subprocess.run([*ruff, "format", *settings, str(target)], check=True)
    return {name: target / name for name in ("v1", "_sync")}


def differences(fresh: Path, committed: Path) -> list[str]:
    """The files that differ between two folders."""
    if not committed.is_dir():
        return [str(committed)]
    names = {path.name for folder in (fresh, committed) for path in folder.iterdir() if path.is_file()}
    _, changed, missing = filecmp.cmpfiles(fresh, committed, sorted(names), shallow=False)
    return [str((committed / name).relative_to(FOLDER)) for name in changed + missing]


def main() -> None:
    """Runs the script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if the committed files are not fresh")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as scratch:
        fresh = generated(Path(scratch))
        stale = [found for name, folder in fresh.items() for found in differences(folder, SOURCE / name)]
        if check:
            for path in stale:
                print(f"{path} is not fresh; run: services/client-python/generate", file=sys.stderr)
            sys.exit(1 if stale else 0)
        if stale:
            for name, folder in fresh.items():
                shutil.rmtree(SOURCE / name, ignore_errors=True)
                shutil.copytree(folder, SOURCE / name)
    print(f"{len(stale)} files changed")


if __name__ == "__main__":
    main()
