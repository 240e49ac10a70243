"""What a wheel will be, as far as it shows without building one: pyproject.toml agrees with CMake, every file that CMake installs
for it is there, check_wheel.py sees what is wrong of a wheel, the commands of ci/package refuse bad options in one line, and the
recipes for containers and Spack name what there is. installed_test.py asks the same of a wheel that was built.

usage: package_test.py [unittest arguments]
"""
import json, os, re, subprocess, sys, tempfile, types, unittest, unittest.mock, zipfile
from pathlib import Path

sys.dont_write_bytecode = True
PACKAGE = Path(__file__).resolve().parent
SOURCE = PACKAGE.parents[1]
sys.path.insert(0, str(PACKAGE))
import check_wheel  # noqa: E402

PYPROJECT = (PACKAGE / "pyproject.toml").read_text()


def setting(name):
    """The text of a line `name = "text"` or `name = 'text'` of pyproject.toml."""
    return re.search(rf"^{re.escape(name)} = ([\"'])(.*)\1", PYPROJECT, re.MULTILINE)[2]


class Pyproject(unittest.TestCase):
    def test_version_is_that_of_cmake(self):
        file = PACKAGE / setting("input")
        found = re.search(setting("regex"), file.read_text(), re.MULTILINE)
        self.assertEqual(found["value"], check_wheel.version())
        self.assertRegex(found["value"], r"^\d+\.\d+\.\d+$")
        self.assertNotRegex(PYPROJECT, r"(?m)^version")

    def test_files_that_it_names_are_there(self):
        for name in ("readme", "cmake.source-dir"):
            self.assertTrue((PACKAGE / setting(name)).exists(), name)
        self.assertTrue((PACKAGE / setting("cmake.source-dir") / "CMakeLists.txt").is_file())

    def test_options_are_cmakes(self):
        build = (SOURCE / "ci/cmake/PlumblineBuild.cmake").read_text()
        for option in re.findall(r"(?m)^(PLUMBLINE_\w+) =", PYPROJECT):
            self.assertRegex(build, rf"option\({option} ")

    def test_command_starts_what_is_installed(self):
        module, function = re.search(r'(?m)^plumbline = "(.*):(.*)"', PYPROJECT).groups()
        package = setting("wheel.install-dir")
        self.assertEqual(module.split(".")[0], package)
        self.assertIn(f"def {function}(", (PACKAGE / module.replace(".", "/")).with_suffix(".py").read_text())

    def test_what_cmake_installs_of_the_sources_is_there(self):
        install = re.sub(r"file\(GLOB[^)]*\)", "", (SOURCE / "ci/cmake/PlumblineInstall.cmake").read_text())
        files = re.findall(r"\b(?:ci|harness|results|reference)/[\w/]+\.(?:py|json|txt|md|hpp)\b", install)
        self.assertGreater(len(files), 10)
        for file in files:
            self.assertTrue((SOURCE / file).is_file(), file)

    def test_lists_are_formatted_as_newer_versions_of_fmt_want_it(self):
        # Debian's fmt 9 has join in another header than those that wheels are built with.
        for folder in ("benchmarks", "conformance", "harness", "reference"):
            for file in (SOURCE / folder).rglob("*.[ch]pp"):
                text = file.read_text()
                if "fmt::join(" in text and not file.name.endswith("_test.cpp"):
                    self.assertIn("#include <fmt/ranges.h>", text, file)

    def test_helpers_are_imported_without_what_they_work_with(self):
        for name in ("adapter", "job"):
            code = (f"import sys; sys.modules['numpy'] = None; sys.path.insert(0, '{SOURCE}/harness/subject/{name}/python'); "
                    f"import plumbline_{name}")
            if name == "adapter" or sys.version_info >= (3, 11):
                done = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)


class Release(unittest.TestCase):
    def test_version_is_in_one_place(self):
        version = re.escape(check_wheel.version())
        # What the change log says of versions, and a record that a fuzzer begins with.
        elsewhere = {"CMakeLists.txt", "conformance/CHANGELOG.md", "ci/fuzz_seeds/run_record/check.jsonl"}
        files = subprocess.run(["git", "-C", SOURCE, "grep", "-lE", rf"(^|[^0-9.]){version}($|[^0-9.])"], capture_output=True, text=True)
        if files.returncode > 1:
            self.skipTest("no git checkout")
        self.assertLessEqual(set(files.stdout.split()) - {"ci/package/package_test.py"}, elsewhere)

    def test_change_log_is_of_the_form_that_it_names(self):
        text = (SOURCE / "conformance/CHANGELOG.md").read_text()
        first, *versions = re.findall(r"(?m)^## (.*)$", text)
        self.assertEqual(first, "[Unreleased]")
        found = [re.fullmatch(r"\[(\d+)\.(\d+)\.(\d+)\] - \d{4}-\d\d-\d\d", version) for version in versions]
        self.assertTrue(found and all(found), versions)
        numbers = [tuple(map(int, one.groups())) for one in found]
        self.assertEqual(numbers, sorted(numbers, reverse=True))
        self.assertEqual(".".join(map(str, numbers[0])), check_wheel.version())
        self.assertLessEqual(set(re.findall(r"(?m)^### (.*)$", text)), {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"})


class CheckWheel(unittest.TestCase):
    def problems(self, name=f"plumbline_suite-{check_wheel.version()}-py3-none-manylinux_2_34_x86_64.whl", linked=(), **files):
        """Of a wheel with all files, or those of `files`, by path, where they are not None."""
        content = dict.fromkeys((file for file in check_wheel.FILES), b"") | files
        # Any program of this machine that needs libc alone stands for ours.
        program = Path("/bin/true").read_bytes()
        with tempfile.TemporaryDirectory() as folder:
            wheel = Path(folder) / name
            with zipfile.ZipFile(wheel, "w") as archive:
                if linked is not None:
                    archive.writestr(f"{check_wheel.LICENCES}linked.json", json.dumps(linked))
                for file, data in content.items():
                    if data is not None:
                        is_program = file.endswith(".so") or file == "bin/plumbline"
                        archive.writestr(f"plumbline/{file}", data or (program if is_program else b""))
            return list(check_wheel.problems(wheel))

    def test_whole(self):
        self.assertEqual(self.problems(), [])

    def test_missing_file(self):
        self.assertEqual(self.problems(**{"adapter.py": None}), ["without adapter.py"])

    def test_licences(self):
        self.assertEqual(self.problems(linked=None), ["without licences/linked.json"])
        fmt = {"name": "fmt", "version": "12.2.0", "licence": "MIT"}
        self.assertEqual(self.problems(linked=[fmt]), ["without the licence of fmt"])
        with_text = {"share/doc/plumbline/licences/fmt/LICENSE": b"text"}
        self.assertEqual(self.problems(linked=[fmt], **with_text), [])
        self.assertEqual(self.problems(linked=[fmt | {"version": ""}], **with_text), ["fmt has no version in licences/linked.json"])

    def test_names(self):
        self.assertEqual(len(self.problems(name="plumbline_suite-0.0.0-py3-none-manylinux_2_34_x86_64.whl")), 1)
        self.assertEqual(len(self.problems(name=f"plumbline_suite-{check_wheel.version()}-py3-none-linux_x86_64.whl")), 1)

    def test_folder_of_the_build(self):
        program = Path("/bin/true").read_bytes()
        words = self.problems(**{"bin/plumbline": program + str(SOURCE).encode(), "lib/plumbline/mpich/libplumbline_mpi.so": program + b".debug_info"})
        self.assertEqual(words, [f"plumbline/bin/plumbline names {SOURCE}", "plumbline/lib/plumbline/mpich/libplumbline_mpi.so is not stripped"])
        words = self.problems(**{"lib/plumbline/libplumbline_cuda.so": program + b"_ZN6device48_GLOBAL__N__6fc0379b_15_cuda_kernels_cu_9faa959511fold"})
        self.assertEqual(words, ["plumbline/lib/plumbline/libplumbline_cuda.so has names that nvcc made of the folder: its sources have a "
                                 "namespace without a name"])

    def test_kernels_have_no_names_of_the_folder(self):
        files = [file for pattern in ("*.cu", "*.cuh") for file in (SOURCE / "reference").rglob(pattern)]
        self.assertGreater(len(files), 5)
        for file in files:
            self.assertNotRegex(file.read_text(), r"(?m)^(namespace \{|static )", file)

    def test_libraries(self):
        own = {"libplumbline_mpi.so": ["libc.so.6"], "libplumbline_training.so": ["libtorch_cpu.so", "libc10.so", "libfmt.so.9"],
               "libplumbline_nccl.so": ["libc.so.6", "libmpi.so.40"]}
        with unittest.mock.patch.object(check_wheel, "needed", lambda file: own.get(file.name, ["libstdc++.so.6"])):
            self.assertEqual(self.problems(), ["plumbline/lib/plumbline/libplumbline_nccl.so needs libmpi.so.40",
                                               "plumbline/lib/plumbline/libplumbline_training.so needs libfmt.so.9"])


class Symbols(unittest.TestCase):
    def newer(self, words):
        with unittest.mock.patch.object(check_wheel.subprocess, "run", lambda *_, **__: types.SimpleNamespace(stdout=words)):
            return check_wheel.newer_symbols("program")

    def test_newer_than_the_tag(self):
        row = "    28: 0000000000000000   932 FUNC    GLOBAL DEFAULT  UND {} (20)\n"
        of_others = ("hypot@GLIBC_2.35", "_ZNSt6chrono3now@GLIBCXX_3.4.30")
        of_the_tag = ("hypot@GLIBC_2.2.5", "dlopen@GLIBC_2.34", "_ZSt4cout@GLIBCXX_3.4", "_ZTI@CXXABI_1.3.13", "mine")
        self.assertEqual(self.newer("".join(row.format(one) for one in of_the_tag + of_others)), list(of_others))
        self.assertEqual(self.newer(row.replace("UND", "12").format("own@GLIBC_2.35")), [])

    def test_of_a_build(self):
        """A wheel takes half an hour; what its files will ask of a machine shows in any build."""
        build = os.environ.get("PLUMBLINE_BUILD", "")
        programs = [file for file in (Path(build) / "bin/plumbline", *Path(build).glob("lib/plumbline/**/*.so")) if build and file.exists()]
        if not programs:
            self.skipTest("PLUMBLINE_BUILD names no built folder")
        compiler = next((line.partition("=")[2] for line in (Path(build) / "CMakeCache.txt").read_text().splitlines() if line.startswith("CMAKE_CXX_COMPILER:")), "c++")
        made_by = subprocess.run([compiler, "-dumpfullversion", "-dumpversion"], capture_output=True, text=True).stdout.strip()
        glibc = os.confstr("CS_GNU_LIBC_VERSION").split()[1]
        if (made_by.split(".")[0], glibc, os.uname().machine) != ("12", "2.36", "x86_64"):
            self.skipTest(f"wheels are built by g++ 12 over glibc 2.36 on x86_64; this is {compiler} {made_by} over {glibc} on {os.uname().machine}")
        renamed = re.findall(r"\.symver (\w+),", (PACKAGE / "older_symbols.hpp").read_text())
        self.assertTrue(renamed)
        found = {symbol for file in programs for symbol in check_wheel.newer_symbols(file) if symbol.split("@")[0] not in renamed}
        self.assertEqual(found, set())


class Options(unittest.TestCase):
    def check(self, words, *arguments, command="wheel"):
        done = subprocess.run([PACKAGE / command, *arguments], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(words, done.stderr)

    def test_refused(self):
        self.check("no option '--frobnicate'", "--frobnicate")
        self.check("--jobs needs a value", "--jobs")
        self.check("--jobs '0' is not a whole number from 1 on", "--jobs", "0")
        self.check("--cuda 'yes'; it is AUTO, ON or OFF", "--cuda", "yes")
        self.check("--third-party is missing", "--cuda", "OFF")
        with tempfile.TemporaryDirectory() as folder:
            self.check(f"'{folder}' has no sources of fmt", "--third-party", folder)

    def test_refused_by_sbom(self):
        self.check("no option '--frobnicate'", "--frobnicate", command="sbom")
        self.check("no wheel is named", command="sbom")
        self.check("no wheel '/nowhere.whl'", "/nowhere.whl", command="sbom")
        self.check("--out needs a value", "--out", command="sbom")
        self.check("'a' and 'b': one wheel at a time", "a", "b", command="sbom")

    def test_refused_by_image(self):
        self.check("no option '--frobnicate'", "--frobnicate", command="image")
        self.check("--wheel is missing", command="image")
        self.check("--wheel '/nowhere.whl': no such file", "--wheel", "/nowhere.whl", command="image")
        self.check(f"--wheel '{__file__}' is no wheel of plumbline", "--wheel", __file__, command="image")
        with tempfile.TemporaryDirectory() as folder:
            wheel = Path(folder) / "plumbline_suite-1.whl"
            wheel.touch()
            self.check("--builder 'make'; it is buildah, podman or docker", "--wheel", wheel, "--builder", "make", command="image")

    def test_file_that_is_no_wheel(self):
        for arguments in ([], ["/nowhere.whl"]):
            done = subprocess.run([sys.executable, PACKAGE / "check_wheel.py", *arguments], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)


class Recipes(unittest.TestCase):
    def test_container_runs_the_command_as_an_ordinary_user(self):
        text = (PACKAGE / "Containerfile").read_text()
        lines = dict(re.findall(r"(?m)^([A-Z]+) (.*)$", text))  # the last of each
        self.assertRegex(lines["USER"], r"^[1-9]\d*$")
        self.assertIn(f"--uid {lines['USER']} ", text)
        self.assertEqual(json.loads(lines["ENTRYPOINT"]), ["plumbline"])
        self.assertTrue(lines["COPY"].startswith(f"{setting('name').replace('-', '_')}-*.whl "))
        self.assertNotIn("COPY .", text)

    def recipe(self):
        """Spack's recipe, with what it imports replaced by what writes down its calls."""
        said = types.SimpleNamespace(dependencies=[], variants=[], versions=[])
        package = types.ModuleType("spack.package")
        package.depends_on = lambda spec, **_: said.dependencies.append(spec)
        package.variant = lambda name, **_: said.variants.append(name)
        package.version = lambda name, **_: said.versions.append(name)
        package.license = package.conflicts = lambda *_, **__: None
        package.join_path = os.path.join

        class CMakePackage:
            run_tests = False

            def define(self, name, value):
                return f"-D{name}={value}"

            def define_from_variant(self, name, variant):
                assert variant in said.variants, variant
                return f"-D{name}=ON"
        system = types.ModuleType("spack_repo.builtin.build_systems.cmake")
        system.CMakePackage = CMakePackage
        modules = {"spack": types.ModuleType("spack"), "spack.package": package, "spack_repo.builtin.build_systems.cmake": system}
        for name in ("spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"):
            modules[name] = types.ModuleType(name)
        file = PACKAGE / "spack/spack_repo/plumbline/packages/plumbline/package.py"
        names = {"__file__": str(file)}
        with unittest.mock.patch.dict(sys.modules, modules):
            exec(compile(file.read_text(), file, "exec"), names)
        return names["Plumbline"], said

    def test_spack_sets_options_that_cmake_has_and_asks_for_all_that_it_looks_for(self):
        package, said = self.recipe()
        self.assertEqual(Path(package.git[len("file://"):]), SOURCE)
        build = "".join(file.read_text() for file in sorted((SOURCE / "ci/cmake").glob("*.cmake")))
        for argument in package().cmake_args():
            name = re.match(r"-D(\w+)=", argument)[1]
            self.assertRegex(build, rf"(option|set)\({name} ")
        asked_for = {re.match(r"[\w-]+", spec)[0].replace("-", "").lower() for spec in said.dependencies}
        for package_name in re.findall(r"(?m)^plumbline_third_party\((\S+) (\S+)", build):
            self.assertIn(package_name[1].replace("-", "").lower(), asked_for | ({"json"} if "nlohmannjson" in asked_for else set()))


if __name__ == "__main__":
    unittest.main(verbosity=1)
