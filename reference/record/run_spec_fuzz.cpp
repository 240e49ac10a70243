// Run specifications that nobody would write: one that is read can be run, and is read again from what it is written
// as.
#include <cstdint>
#include <cstdlib>

#include "reference/comm/errors.hpp"
#include "reference/record/run_spec.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plumbline;
  try {
    const job::RunSpec spec = job::parse_run_spec({reinterpret_cast<const char*>(data), size}, "run.toml");
    if (job::problem_of(spec)) std::abort();
    if (job::to_toml(job::parse_run_spec(job::to_toml(spec), "run.toml")) != job::to_toml(spec)) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
