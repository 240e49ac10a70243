#include "harness/mutants/record_rewriting.hpp"

#include <map>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/record/safetensors.hpp"

namespace plumbline::mutants {

using job::RunSpec;

namespace {

// Bytes and numbers are all that a record holds.
std::vector<std::uint8_t> bytes_of(const job::SafetensorsReader& from, const std::string& name,
                                   const job::TensorInfo& info) {
  if (info.dtype != comm::DType::u8)
    throw Unsupported(
        fmt::format("'{}': tensor '{}' is {}; only F32 and U8 can be copied", from.file().string(), name, info.type));
  return from.read<std::uint8_t>(name);
}

bool is_initial(const RunSpec& spec, const RecordedTensor& tensor) {
  return tensor.name.starts_with(fmt::format("step{}/before/", spec.first_step()));
}

}  // namespace

bool is_of(const RecordedTensor& tensor, job::Moment moment) {
  return tensor.name.find(fmt::format("/{}/", job::name_of(moment))) != std::string::npos;
}

ChangeRecord with_tensors(std::function<void(const RunSpec&, int rank, RecordedTensor&)> change,
                          std::function<void(const RunSpec&, int rank, RecordedBytes&)> change_bytes) {
  return [change = std::move(change), change_bytes = std::move(change_bytes)](const RunSpec& spec,
                                                                              const std::filesystem::path& folder) {
    for (int rank = 0; rank < spec.parallel.world(); ++rank) {
      const std::filesystem::path file = job::record_file(folder, rank);
      if (!std::filesystem::exists(file)) continue;
      const job::SafetensorsReader reader(file);
      job::SafetensorsWriter writer;
      for (const auto& [key, value] : reader.metadata()) writer.metadata(key, value);
      for (const auto& [name, info] : reader.tensors()) {
        if (info.dtype != comm::DType::f32) {
          RecordedBytes bytes{name, bytes_of(reader, name, info)};
          if (change_bytes) change_bytes(spec, rank, bytes);
          writer.add<std::uint8_t>(name, info.shape, bytes.values);
          continue;
        }
        RecordedTensor tensor{name, info.shape, reader.read<float>(name)};
        change(spec, rank, tensor);
        if (!tensor.name.empty()) writer.add<float>(tensor.name, tensor.shape, tensor.values);
      }
      writer.write(file);
    }
  };
}

void keep_initial_values(const RunSpec& spec, int, RecordedTensor& tensor) {
  if (!is_initial(spec, tensor)) tensor.name.clear();
}

void copy_from_rank_0(const RunSpec& spec, const std::filesystem::path& folder) {
  for (int rank = 1; rank < spec.parallel.world(); ++rank) {
    const std::filesystem::path first = job::record_file(folder, 0), file = job::record_file(folder, rank);
    if (!std::filesystem::exists(first) || !std::filesystem::exists(file)) continue;
    const job::SafetensorsReader own(file), reader(first);
    job::SafetensorsWriter writer;
    for (const auto& [key, value] : own.metadata()) writer.metadata(key, value);
    for (const auto& [name, info] : reader.tensors())
      if (info.dtype == comm::DType::f32)
        writer.add<float>(name, info.shape, reader.read<float>(name));
      else
        writer.add<std::uint8_t>(name, info.shape, bytes_of(reader, name, info));
    writer.write(file);
  }
}

void keep_initial_parameters(const RunSpec& spec, const std::filesystem::path& folder) {
  std::map<std::pair<int, std::string>, std::vector<float>> initial;  // by rank and parameter
  const auto parameter_of = [](const std::string& name) { return name.substr(name.rfind('/') + 1); };
  with_tensors([&](const RunSpec&, int rank, const RecordedTensor& tensor) {
    if (is_initial(spec, tensor)) initial[{rank, parameter_of(tensor.name)}] = tensor.values;
  })(spec, folder);
  with_tensors([&](const RunSpec&, int rank, RecordedTensor& tensor) {
    if (!is_of(tensor, job::Moment::before) && !is_of(tensor, job::Moment::after)) return;
    const auto found = initial.find({rank, parameter_of(tensor.name)});
    if (found != initial.end()) tensor.values = found->second;
  })(spec, folder);
}

}  // namespace plumbline::mutants
