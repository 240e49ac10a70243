"""Writes the bill of materials of a wheel, from what the wheel says of itself; ci/package/sbom starts this.

usage: make_sbom.py WHEEL FILE
"""
import datetime, hashlib, json, sys, uuid, zipfile
from email.parser import Parser
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

LINKED = "plumbline/share/doc/plumbline/licences/linked.json"
REPOSITORIES = {"fmt": "fmtlib/fmt", "json": "nlohmann/json", "tomlplusplus": "marzer/tomlplusplus", "CLI11": "CLIUtils/CLI11",
                "googletest": "google/googletest", "benchmark": "google/benchmark", "prometheus-cpp": "jupp0r/prometheus-cpp"}
# Not in the wheel: found on the machine, the first three by every program, the others by the module that needs one.
REQUIRED = {"glibc": "LGPL-2.1-or-later", "libstdc++": "GPL-3.0-or-later WITH GCC-exception-3.1",
            "libgcc_s": "GPL-3.0-or-later WITH GCC-exception-3.1"}
OPTIONAL = {"torch": "BSD-3-Clause", "Open MPI": "BSD-3-Clause", "MPICH": "mpich2", "NCCL": "Apache-2.0"}


def texts(wheel):
    """The wheel's METADATA, what is linked into it, and the time of its files."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        time = datetime.datetime(*archive.getinfo(LINKED).date_time, tzinfo=datetime.timezone.utc)
        return Parser().parsestr(archive.read(metadata).decode()), json.loads(archive.read(LINKED)), time


def component(name, licence, scope=None, version=None, where=None):
    repository = REPOSITORIES.get(name)
    factory = LicenseFactory()
    one = factory.make_from_string(licence) if " WITH " in licence else factory.make_with_name(licence) if licence.startswith("LicenseRef-") \
        else factory.make_with_id(licence)
    return Component(name=name, version=version, type=ComponentType.DATA if name == "digits" else ComponentType.LIBRARY, scope=scope,
                     licenses=[one], bom_ref=name,
                     purl=PackageURL("github", *repository.split("/"), version) if repository else None,
                     properties=[Property(name="plumbline:where", value=where)])


def bill(wheel):
    metadata, linked, time = texts(wheel)
    digest = hashlib.sha256(Path(wheel).read_bytes()).hexdigest()
    product = Component(name=metadata["Name"], version=metadata["Version"], type=ComponentType.APPLICATION, bom_ref="plumbline",
                        licenses=[LicenseFactory().make_with_id(metadata["License-Expression"])],
                        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
                        purl=PackageURL("pypi", name=metadata["Name"], version=metadata["Version"]))
    bom = Bom(serial_number=uuid.UUID(digest[:32], version=4))  # of this file
    bom.metadata.component = product
    bom.metadata.timestamp = time
    parts = [component(one["name"], one["licence"], ComponentScope.REQUIRED, one["version"], "in the wheel") for one in linked]
    parts += [component(name, licence, ComponentScope.REQUIRED, where="of the machine") for name, licence in REQUIRED.items()]
    parts += [component(name, licence, ComponentScope.OPTIONAL, where="of the machine") for name, licence in OPTIONAL.items()]
    for part in parts:
        bom.components.add(part)
    bom.register_dependency(product, parts)
    return bom


def main(wheel, file):
    try:
        bom = bill(wheel)
    except (KeyError, ValueError, zipfile.BadZipFile) as error:
        print(f"ci/package/sbom: '{wheel}' is no wheel of plumbline: {error}", file=sys.stderr)
        return 2
    text = JsonV1Dot6(bom).output_as_string(indent=2)
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem:
        print(f"ci/package/sbom: what was made is not valid: {problem}", file=sys.stderr)
        return 3
    Path(file).write_text(text + "\n")
    print(f"written: {file}, {len(bom.components)} components")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
