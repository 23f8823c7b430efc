"""The runner of the clients' suite for the Python client. `tests/clients/README.md` describes the suite."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from faces import AsyncFace, BlockingFace, Face
from operations import Failed, Operations

_NAME = re.compile(r"\$\{(\w+)\}")


def filled(value: Any, names: dict[str, str]) -> Any:
    """A part of a scenario with the values of the names that it holds. Other names are the task's own variables."""
    if isinstance(value, str):
        return _NAME.sub(lambda match: names.get(match[1], match[0]), value)
    if isinstance(value, list):
        return [filled(each, names) for each in value]
    if isinstance(value, dict):
        return {key: filled(each, names) for key, each in value.items()}
    return value


def other(word: str) -> str:
    """A word of the same form for the second face, so that the two do not meet in the cell."""
    last = word[-1]
    return word[:-1] + {"9": "0", "f": "a", "z": "a"}.get(last, chr(ord(last) + 1))


async def run_once(world: dict[str, Any], scenario: dict[str, Any], face: type[Face]) -> dict[str, Any]:
    """The result of one scenario with one face."""
    names = {name: value for name, value in world.items() if isinstance(value, str)}
    if face is BlockingFace:
        names |= {name: other(names[name]) for name in ("run", "id")}
    operations = Operations(world, face)
    result: dict[str, Any] = {"scenario": scenario["name"], "ok": True}
    number = 0
    try:
        for number, step in enumerate(scenario["steps"]):  # noqa: B007
            value = await operations.step(filled(step, names))
            if "save" in step:
                names[step["save"]] = str(value)
    except Failed as failed:
        result |= {"ok": False, "step": number, "error": f"{face.name}: {failed}"}
    except Exception as error:
        traceback.print_exc()
        result |= {"ok": False, "step": number, "error": f"{face.name}: {error!r}"}
    try:
        await operations.clean()
    except Exception as error:
        traceback.print_exc()
        if result["ok"]:
            result |= {"ok": False, "step": number, "error": f"{face.name}: the clean-up fails: {error!r}"}
    return result


async def run(world: dict[str, Any], scenarios: list[dict[str, Any]]) -> bool:
    """Runs scenarios, and prints a line for each. Returns whether all have passed."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(64))
    is_fine = True
    for scenario in scenarios:
        for face in (AsyncFace, BlockingFace):
            result = await run_once(world, scenario, face)
            if not result["ok"]:
                break
        print(json.dumps(result), flush=True)
        is_fine = is_fine and result["ok"]
    return is_fine


def main() -> None:
    """Runs the runner."""
    if len(sys.argv) < 3:
        sys.exit("usage: run WORLD.json SCENARIOS.json [NAME…]")
    world, found = (json.loads(Path(path).read_text(encoding="utf-8")) for path in sys.argv[1:3])
    scenarios = found["scenarios"] if isinstance(found, dict) else found
    chosen = sys.argv[3:]
    unknown = set(chosen) - {scenario["name"] for scenario in scenarios}
    if unknown:
        sys.exit(f"no scenario {', '.join(sorted(unknown))}")
    sys.exit(0 if asyncio.run(run(world, [each for each in scenarios if not chosen or each["name"] in chosen])) else 1)


if __name__ == "__main__":
    main()
