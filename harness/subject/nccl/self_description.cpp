#include "harness/subject/nccl/self_description.hpp"

#include <array>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/subject/nccl/process.hpp"

namespace plumbline::subject::nccl {

namespace {

constexpr std::array kInOneFunction{comm::Operation::reduce, comm::Operation::broadcast,
                                    comm::Operation::reduce_scatter, comm::Operation::all_gather,
                                    comm::Operation::send};

}  // namespace

comm::Capabilities capabilities_of(const Library& library, comm::Device::Kind device) {
  using comm::Capability;
  comm::Capabilities capabilities{
      .backend = "nccl",
      .version = "NCCL " + library.version(),
      .claims = {Capability::nonblocking, Capability::coalescing, Capability::groups, Capability::point_to_point,
                 Capability::wait_timeout, Capability::blocking_timeout, Capability::names_missing,
                 Capability::failure_detection, Capability::equal_results, Capability::bool_reductions},
      .devices = {device},
      .rounds_each_half_addition = true,
      .notes = {
          "all ranks are on one host: who is missing, tags, aborts and unique ids go through memory that they share",
          "NCCL has no tags: the ranks agree by that memory which message is next, and NCCL carries them in that "
          "order, in a "
          "communicator of its own for each direction between two processes",
          "avg is ncclAvg: each element is multiplied by 1/n in its own type, then added, so that averages of halves "
          "miss the bound of f32 (COLL-004)",
          "halves are added in their own type, unless NCCL has the switch do it (NVLS), which adds in f32",
          "min and max follow CUDA's, which leave NaN out",
          "a process that dies is seen by its launcher, not by the backend",
          "several threads of a process may not use communicators at once: NCCL asks for one order of launches on all "
          "ranks",
          "bool is ncclUint8, whose min and max are AND and OR; f8_e4m3 and f8_e5m2 are moved from NCCL 2.24 on, and "
          "not "
          "reduced, for which NCCL needs devices of compute capability 9.0",
          "an error on the device after a wait has returned ends the next call on the group"}};
  capabilities.dtypes.insert(comm::DType::boolean);
  if (library.has_float8()) capabilities.dtypes.insert({comm::DType::f8_e4m3, comm::DType::f8_e5m2});
  if (library.has_scaled_sums()) {
    capabilities.claims.insert(Capability::scaled_sums);
    capabilities.notes.push_back(
        "sums with factors are those of ncclRedOpCreatePreMulSum: a factor is rounded to the element's type, and so is "
        "each product");
  }
  if (library.has_registration()) {
    capabilities.claims.insert(Capability::registered_memory);
    capabilities.notes.push_back(
        "memory is registered by ncclCommRegister with the communicator of a group's collectives, not with those of "
        "messages");
  }
  if (!library.lacking(comm::Operation::send).empty()) capabilities.claims.erase(Capability::point_to_point);
  for (const comm::Operation operation : kInOneFunction)
    if (const std::string functions = library.lacking(operation); !functions.empty())
      capabilities.notes.push_back(
          fmt::format("the library has no {}: {}{} rejected", functions, name_of(operation),
                      operation == comm::Operation::send ? " and all that is made of messages are" : " is"));
  return capabilities;
}

std::map<std::string, std::string> environment_of(const Process& process) {
  std::map<std::string, std::string> all = process.runtime->environment();
  all["library"] = process.library.file();
  all["version"] = process.library.version();
  all["device"] = comm::name_of(comm::Device{process.options.runtime, static_cast<std::int16_t>(process.device)});
  all["device.name"] = process.runtime->describe(process.device).name;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (text.starts_with("NCCL_") && equals != text.npos) all.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return all;
}

}  // namespace plumbline::subject::nccl
