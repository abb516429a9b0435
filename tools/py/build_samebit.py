"""The build backend (PEP 517) of this package: `make` builds the library, and the wheel is a zip archive.

A wheel holds the package, `libsamebit.so.0` and the program `samebit`. Python compiles nothing, and the build needs
no package. The library comes from, in this order,

    SAMEBIT_LIBRARY=FILE    an existing library, so that no compiler is needed
    build/libsamebit.so.0   of the tree with this folder; `make lib` updates it

and the program from SAMEBIT_PROGRAM=FILE, or build/static/samebit, which `make static` brings up to date.
SAMEBIT_LOCAL ("cuda13") is appended to the version of the wheel. SAMEBIT_PLATFORM names the platform of the wheel
("linux_aarch64"), if it is not the platform of this machine.
The bytes of a wheel depend only on its files: names are sorted, and all have the same date.
"""

import base64
import hashlib
import os
import pathlib
import re
import stat
import subprocess
import sys
import sysconfig
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent
LIBRARY = "libsamebit.so.0"


def _project():
    """Reads pyproject.toml in the few forms that it uses (Python 3.9 has no parser for it)."""
    text = (HERE / "pyproject.toml").read_text(encoding="utf-8")

    def one(key):
        return re.search(rf'^{key} = "(.*)"$', text, re.M).group(1)

    project = {key: one(key) for key in ("name", "version", "description", "requires-python")}
    local = os.environ.get("SAMEBIT_LOCAL")
    if local:
        project["version"] += "+" + local
    project["license"] = re.search(r'^license = \{ text = "(.*)" \}$', text, re.M).group(1)
    project["dependencies"] = re.findall(
        r'"([^"]+)"', re.search(r"^dependencies = \[(.*?)\]", text, re.M | re.S).group(1)
    )
    project["classifiers"] = re.findall(
        r'"([^"]+)"', re.search(r"^classifiers = \[(.*?)\]", text, re.M | re.S).group(1)
    )
    project["entry points"] = re.search(
        r"^\[project\.entry-points\.(\S+)\]\n(\S+) = \"(\S+)\"", text, re.M
    ).groups()
    return project


def _metadata(project):
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"License: {project['license']}",
        f"Requires-Python: {project['requires-python']}",
    ]
    lines += [f"Requires-Dist: {one}" for one in project["dependencies"]]
    lines += [f"Classifier: {one}" for one in project["classifiers"]]
    return "\n".join(lines) + "\n"


def _tag():
    platform = os.environ.get("SAMEBIT_PLATFORM") or sysconfig.get_platform()
    return "py3-none-" + re.sub(r"[-.]", "_", platform)


def _wheel(tag):
    return f"Wheel-Version: 1.0\nGenerator: build_samebit\nRoot-Is-Purelib: false\nTag: {tag}\n"


def _entry_points(project):
    group, name, target = project["entry points"]
    return f"[{group}]\n{name} = {target}\n"


def _built(variable, name, target):
    """The file that the environment variable names, or the one of the tree, brought up to date by `make target`."""
    named = os.environ.get(variable)
    if named:
        path = pathlib.Path(named)
        if not path.is_file():
            raise SystemExit(f"{variable}={named} is not a file")
        return path
    path = TREE / "build" / name
    if not (TREE / "Makefile").is_file():
        if path.is_file():
            return path
        raise SystemExit(f"{TREE} is not the tree of samebit: set {variable} to a {path.name} that exists")
    made = subprocess.run(["make", "-C", str(TREE), target], stdout=sys.stderr)
    if made.returncode:
        raise SystemExit(f"`make -C {TREE} {target}` failed; see above, or set {variable}")
    return path


def _write(path, files):
    """A zip archive of {name: bytes}, with the RECORD that a wheel needs."""
    project = _project()
    info = f"{project['name']}-{project['version']}.dist-info"
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name, data):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            runs = name.endswith(LIBRARY) or ".data/scripts/" in name
            # pip makes an entry executable only if it is a regular file by its mode
            entry.external_attr = (stat.S_IFREG | (0o755 if runs else 0o644)) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)

        for name in sorted(files):
            add(name, files[name])
            digest = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=")
            record.append(f"{name},sha256={digest.decode()},{len(files[name])}")
        record.append(f"{info}/RECORD,,")
        add(f"{info}/RECORD", ("\n".join(record) + "\n").encode())


def _build(directory, editable):
    project, tag = _project(), _tag()
    library = _built("SAMEBIT_LIBRARY", LIBRARY, "lib")
    program = _built("SAMEBIT_PROGRAM", "static/samebit", "static")
    info = f"{project['name']}-{project['version']}.dist-info"
    files = {
        f"{info}/METADATA": _metadata(project).encode(),
        f"{info}/WHEEL": _wheel(tag).encode(),
        f"{info}/entry_points.txt": _entry_points(project).encode(),
        f"{project['name']}-{project['version']}.data/scripts/samebit": program.read_bytes(),
    }
    contents = program.with_name(program.name + ".spdx.json")
    if contents.is_file():
        files[f"{info}/sboms/{contents.name}"] = contents.read_bytes()
    if editable:
        files["samebit_tree.pth"] = f"{HERE}\n".encode()
    else:
        for source in sorted((HERE / "samebit").iterdir()):
            if source.suffix == ".py" or source.name == "py.typed":
                files[f"samebit/{source.name}"] = source.read_bytes()
        files[f"samebit/{LIBRARY}"] = library.read_bytes()
    name = f"{project['name']}-{project['version']}-{tag}.whl"
    _write(pathlib.Path(directory) / name, files)
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _build(wheel_directory, editable=False)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _build(wheel_directory, editable=True)


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit("there is no source archive of the package alone: it is built from the tree of samebit")
