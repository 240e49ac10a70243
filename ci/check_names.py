"""Where files are compiled together, a function of one file's own must not overload one of another's own: a call would silently change
hands. (What headers declare is seen by files that are compiled apart, too.)

usage: check_names.py BUILD

Reads what CMake puts together under BUILD (*/Unity/*.cxx), and the functions in unnamed namespaces of those files.
"""
import re, sys
from collections import defaultdict
from pathlib import Path

FUNCTION = re.compile(r"^(?![\s/#}]|namespace|using|return|template|struct|class|enum)[\w:<>,&*()\[\]\s.]+?[ *&]([a-z_]\w*)\(")


def own_functions(source):
    """Names of the functions that only this file sees."""
    is_own, names = False, set()
    for line in source.splitlines():
        if line.startswith("namespace {"):
            is_own = True
        elif line.startswith("}  // namespace"):
            is_own = False
        elif is_own and (found := FUNCTION.match(line)):
            names.add(found[1])
    return names


def main(build):
    together = sorted(build.glob("**/Unity/*.cxx"))
    cache = build / "CMakeCache.txt"
    if not together and cache.exists() and "PLUMBLINE_UNITY:BOOL=ON" in cache.read_text():
        print(f"{build}: files are compiled together, and no */Unity/*.cxx is there to look at")
        return 1
    wrong = 0
    for unit in together:
        files = [Path(name) for name in re.findall(r'#include "([^"]+\.cpp)"', unit.read_text())]
        holders = defaultdict(list)
        for file in files:
            if file.exists():  # else it is generated, later
                for name in own_functions(file.read_text()):
                    holders[name].append(file.name)
        for name, files in holders.items():
            if len(files) > 1:
                wrong += 1
                print(f"{unit.relative_to(build).parent.parent}: {' and '.join(files)} have a function '{name}' of their own each; "
                      "give one another name, or compile it apart (SKIP_UNITY_BUILD_INCLUSION)")
    print(f"{len(together)} units of files that are compiled together, {wrong} names twice")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        print(f"check_names.py: give one build folder; got '{' '.join(sys.argv[1:])}'", file=sys.stderr)
        sys.exit(2)
    sys.exit(main(Path(sys.argv[1])))
