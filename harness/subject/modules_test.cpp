// Modules that were compiled with another interface are refused before anything of theirs is called.
#include "harness/subject/modules.hpp"

#include <cstdlib>
#include <fstream>

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "harness/subject/backend_name.hpp"
#include "harness/subject/torch_library.hpp"

namespace plumbline::subject {
namespace {

std::string problem_of(const std::filesystem::path& file) {
  void* const module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(module, nullptr) << dlerror();
  return module == nullptr ? "" : problem_of_interface(module, file);
}

std::string own_words() { return fmt::format("{}-{:04x}", comm::kInterfaceVersion, comm::own_interface() & 0xffff); }

TEST(Modules, OfAnotherInterfaceAreRefusedWithBothInterfaces) {
  const std::filesystem::path folder(PLUMBLINE_MODULES_OF_TEST);
  EXPECT_EQ(problem_of(folder / "other_interface.so"),
            fmt::format("'{}/other_interface.so' was built with interface 7-beef, and this program has interface {}; "
                        "build it again with these headers",
                        folder.string(), own_words()));
  EXPECT_EQ(problem_of(folder / "no_interface.so"),
            fmt::format("'{}/no_interface.so' names no interface, and this program has interface {}; build it "
                        "with these headers",
                        folder.string(), own_words()));
}

struct Longer : comm::Communicator {
  using Communicator::Communicator;
  virtual void another() {}
};
// As a header with another virtual function, whose version nobody increased.
TEST(Modules, OfAnotherTableHaveAnotherDigest) {
  EXPECT_NE(comm::interface::table_of<Longer>(), comm::interface::table_of<comm::Communicator>());
  EXPECT_EQ(comm::interface::table_of<Longer>(), comm::interface::table_of<Longer>());
}

TEST(Modules, OfThisBuildAreNot) { EXPECT_EQ(problem_of(module_file("nccl")), ""); }

TEST(TorchLibrary, AFileForItsMinorVersionComesFirst) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / "modules";
  fs::create_directories(folder / "torch-1.2");
  const fs::path own = folder / "libplumbline_training.so";
  const Torch other{.folder = "/torch", .version = "1.2.3+cpu"};
  EXPECT_EQ(file_for(own, other), folder / "torch-1.2" / "libplumbline_training.so");
  const bool is_for_one = !torch_of_build().empty();
  EXPECT_EQ(fitting_file(own, other), is_for_one ? std::nullopt : std::optional(own));
  std::ofstream(file_for(own, other)).close();
  EXPECT_EQ(fitting_file(own, other), is_for_one ? file_for(own, other) : own);
  // An archive of LibTorch has no version.py.
  EXPECT_EQ(fitting_file(own, {.folder = "/torch", .version = ""}), own);
  EXPECT_EQ(fitting_file(own, {.folder = "/torch", .version = torch_of_build()}), own);
  fs::remove_all(folder);
}

TEST(TorchLibrary, TheTorchOfAPythonIsFoundByItsFiles) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / "torch";
  fs::create_directories(folder / "lib");
  std::ofstream(folder / "version.py") << "from typing import Optional\n__version__ = '9.8.7+cpu'\ndebug = False\n";
  const fs::path python = fs::path(testing::TempDir()) / "python";
  std::ofstream(python) << "#!/bin/sh\necho '" << folder.string() << "'\n";
  fs::permissions(python, fs::perms::owner_all);
  ::setenv("PLUMBLINE_PYTHON", python.c_str(), 1);
  EXPECT_TRUE(is_python_chosen());
  EXPECT_FALSE(torch_of_python().has_value());  // no library in it
  std::ofstream(folder / "lib" / "libtorch_cpu.so").close();
  ASSERT_TRUE(torch_of_python().has_value());
  EXPECT_EQ(torch_of_python()->version, "9.8.7+cpu");
  EXPECT_EQ(minor_of(torch_of_python()->version), "9.8");
  std::ofstream(python) << "#!/bin/sh\nexit 1\n";
  EXPECT_FALSE(torch_of_python().has_value());
  ::unsetenv("PLUMBLINE_PYTHON");
  EXPECT_FALSE(is_python_chosen());
  EXPECT_EQ(chosen_python(), "python3");
  fs::remove_all(folder);
  fs::remove(python);
}

TEST(BackendNames, OfTorchDistributedNameTheModuleAndTheBackend) {
  EXPECT_EQ(module_of("c10d:gloo"), "c10d");
  EXPECT_EQ(module_of("c10d"), "c10d");
  EXPECT_EQ(c10d_backend_of("c10d:gloo"), "gloo");
  EXPECT_EQ(file_name_of("c10d:gloo"), "c10d-gloo");
  EXPECT_EQ(options_of("c10d:gloo", {{"a", "b"}}), (BackendOptions{{"a", "b"}, {"backend", "gloo"}}));
}

}  // namespace
}  // namespace plumbline::subject
