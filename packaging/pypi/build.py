"""packaging/pypi/build.py BINARY PLATFORM: makes a wheel that carries BINARY as a script.

PLATFORM is a platform tag, such as manylinux_2_35_x86_64. pip, pipx and uvx install the binary with
its executable bit, and nothing of it is Python.
"""

import base64
import hashlib
import pathlib
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
binary, platform = pathlib.Path(sys.argv[1]), sys.argv[2]
sourced = subprocess.run(
    ["bash", "-c", 'set -a && . "$0" && env', ROOT / "packaging/names"], check=True, capture_output=True, text=True
)
names = dict(line.split("=", 1) for line in sourced.stdout.splitlines() if "=" in line)
version = subprocess.run(
    ["bash", ROOT / "packaging/version"], check=True, capture_output=True, text=True
).stdout.strip()
name = names["PYPI_PACKAGE"]
module = name.replace("-", "_")
info = f"{module}-{version}.dist-info"
script = "longhaul.exe" if platform.startswith("win") else "longhaul"

METADATA = f"""\
Metadata-Version: 2.1
Name: {name}
Version: {version}
Summary: A proxy that keeps long agent conversations inside the model's context window
Home-page: {names["REPOSITORY"]}
License: MIT OR Apache-2.0
Requires-Python: >=3.8
Description-Content-Type: text/markdown

{(ROOT / "README.md").read_text()}"""
WHEEL = f"Wheel-Version: 1.0\nGenerator: longhaul\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n"

files = {
    f"{module}-{version}.data/scripts/{script}": (binary.read_bytes(), 0o755),
    f"{info}/METADATA": (METADATA.encode(), 0o644),
    f"{info}/WHEEL": (WHEEL.encode(), 0o644),
    f"{info}/licenses/LICENSE-MIT": ((ROOT / "LICENSE-MIT").read_bytes(), 0o644),
    f"{info}/licenses/LICENSE-APACHE": ((ROOT / "LICENSE-APACHE").read_bytes(), 0o644),
}
record = ""
for path, (content, _) in files.items():
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    record += f"{path},sha256={digest},{len(content)}\n"
files[f"{info}/RECORD"] = ((record + f"{info}/RECORD,,\n").encode(), 0o644)

(ROOT / "dist").mkdir(exist_ok=True)
wheel = ROOT / "dist" / f"{module}-{version}-py3-none-{platform}.whl"
with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
    for path, (content, mode) in files.items():
        # The earliest time that the format has: the same input gives the same bytes.
        entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, content)
print(wheel.relative_to(ROOT))
