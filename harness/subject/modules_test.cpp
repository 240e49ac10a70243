// Modules that were compiled with another interface are refused before anything of theirs is called.
#include "harness/subject/modules.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "harness/subject/backend_name.hpp"

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

TEST(BackendNames, OfTorchDistributedNameTheModuleAndTheBackend) {
  EXPECT_EQ(module_of("c10d:gloo"), "c10d");
  EXPECT_EQ(module_of("c10d"), "c10d");
  EXPECT_EQ(c10d_backend_of("c10d:gloo"), "gloo");
  EXPECT_EQ(file_name_of("c10d:gloo"), "c10d-gloo");
  EXPECT_EQ(options_of("c10d:gloo", {{"a", "b"}}), (BackendOptions{{"a", "b"}, {"backend", "gloo"}}));
}

}  // namespace
}  // namespace plumbline::subject
