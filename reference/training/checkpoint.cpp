#include "reference/training/checkpoint.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <system_error>

#include <fmt/format.h>

#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"
#include "reference/record/safetensors.hpp"
#include "reference/training/detail/random.hpp"

namespace plumbline::training {
namespace {

constexpr const char* kVersion = "1";
constexpr const char* kFolderPrefix = "step-";
constexpr const char* kStatePrefix = "state/";

// A configuration as a file has it: "field = value" lines.
std::string lines_of(const Configuration& configuration) {
  std::string text;
  for (const auto& [field, value] : configuration) text += fmt::format("{} = {}\n", field, value);
  return text;
}

Configuration configuration_of_lines(const std::string& text) {
  Configuration configuration;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    const auto middle = line.find(" = ");
    configuration.emplace_back(line.substr(0, middle), middle == std::string::npos ? "" : line.substr(middle + 3));
  }
  return configuration;
}

void check_lines(const Checkpoint& checkpoint) {
  const auto one_line = [](const std::string& what, const std::string& text) {
    if (text.find('\n') != std::string::npos)
      throw InvalidArgument(fmt::format("{} '{}' has a line end; a checkpoint keeps lines", what, text));
  };
  for (const auto& [field, value] : checkpoint.configuration) {
    one_line("configuration field", field);
    one_line("configuration value", value);
    if (field.find(" = ") != std::string::npos)
      throw InvalidArgument(fmt::format("configuration field '{}' has an equals sign", field));
  }
  for (const auto& [name, tensor] : checkpoint.tensors)
    if (tensor.bytes.size() != static_cast<std::size_t>(job::elements_of(tensor.shape)) * comm::size_of(tensor.dtype))
      throw InvalidArgument(
          fmt::format("tensor '{}' has {} bytes; shape {} of {} needs {}", name, tensor.bytes.size(),
                      job::text_of(tensor.shape), comm::name_of(tensor.dtype),
                      static_cast<std::size_t>(job::elements_of(tensor.shape)) * comm::size_of(tensor.dtype)));
}

// Calls `use` with a value of the element type.
template <class Use>
void with_type(comm::DType dtype, const Use& use) {
  switch (dtype) {
    case comm::DType::f16:
      return use(comm::Float16{});
    case comm::DType::bf16:
      return use(comm::BFloat16{});
    case comm::DType::f32:
      return use(float{});
    case comm::DType::f64:
      return use(double{});
    case comm::DType::i32:
      return use(std::int32_t{});
    case comm::DType::i64:
      return use(std::int64_t{});
    case comm::DType::u8:
      return use(std::uint8_t{});
  }
}

void add(job::SafetensorsWriter& writer, const std::string& name, const StoredTensor& tensor) {
  with_type(tensor.dtype, [&]<class T>(T) {
    std::vector<T> values(tensor.bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    writer.add<T>(name, tensor.shape, values);
  });
}

StoredTensor read(const job::SafetensorsReader& reader, const std::string& name, const job::TensorInfo& info) {
  if (!info.dtype)
    throw InvalidArgument(
        fmt::format("'{}': tensor '{}' is of type {}, which no run has", reader.file().string(), name, info.type));
  StoredTensor tensor{.dtype = *info.dtype, .shape = info.shape, .bytes = {}};
  with_type(tensor.dtype, [&]<class T>(T) {
    const std::vector<T> values = reader.read<T>(name);
    tensor.bytes.resize(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  });
  return tensor;
}

// The metadata of a file that says it is a checkpoint.
class Metadata {
 public:
  explicit Metadata(const job::SafetensorsReader& reader) : reader_(reader) {
    if (text("plumbline.checkpoint") != kVersion)
      refuse(fmt::format("it is a checkpoint of version {}; {} is known here", text("plumbline.checkpoint"), kVersion));
  }
  [[nodiscard]] const std::string& text(const std::string& key) const {
    const auto found = reader_.metadata().find(key);
    if (found == reader_.metadata().end()) refuse(fmt::format("it has no '{}', so it is no checkpoint", key));
    return found->second;
  }
  template <class Number>
  [[nodiscard]] Number number(const std::string& key) const {
    const std::string& value = text(key);
    Number parsed{};
    if (std::from_chars(value.data(), value.data() + value.size(), parsed) !=
        std::from_chars_result{value.data() + value.size(), {}})
      refuse(fmt::format("its '{}' is '{}'; it must be a whole number", key, value));
    return parsed;
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw InvalidArgument(fmt::format("'{}': {}", reader_.file().string(), why));
  }

 private:
  const job::SafetensorsReader& reader_;
};

// "step-12" to 12.
std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kFolderPrefix)) return std::nullopt;
  const char* begin = name.data() + std::strlen(kFolderPrefix);
  const char* end = name.data() + name.size();
  std::int64_t step = -1;
  if (std::from_chars(begin, end, step) != std::from_chars_result{end, {}} || step < 0) return std::nullopt;
  return step;
}

// Steps of which there is any file.
std::vector<std::int64_t> begun_steps(const std::filesystem::path& folder) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(folder, error); !error && entry != std::filesystem::end(entry);
       entry.increment(error))
    if (const auto step = step_of(entry->path().filename().string())) steps.push_back(*step);
  std::ranges::sort(steps);
  return steps;
}

}  // namespace

std::string hash_of(const Configuration& configuration) {
  return fmt::format("{:016x}", stream_of(lines_of(configuration)));
}

std::optional<std::string> first_difference(const Configuration& there, const Configuration& here) {
  for (std::size_t i = 0; i < std::max(there.size(), here.size()); ++i) {
    if (i >= here.size()) return fmt::format("{} is {} there and unknown here", there[i].first, there[i].second);
    if (i >= there.size()) return fmt::format("{} is unknown there and {} here", here[i].first, here[i].second);
    if (there[i].first != here[i].first)
      return fmt::format("field {} is {} there and {} here", i, there[i].first, here[i].first);
    if (there[i].second != here[i].second)
      return fmt::format("{} is {} there and {} here", here[i].first, there[i].second, here[i].second);
  }
  return std::nullopt;
}

std::filesystem::path checkpoint_file(const std::filesystem::path& folder, std::int64_t step, int rank) {
  return folder / fmt::format("{}{}", kFolderPrefix, step) / fmt::format("rank{}.safetensors", rank);
}

std::error_code why_no_files(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return error;
  const std::filesystem::path probe = folder / ".probe";
  errno = 0;
  std::FILE* const file = std::fopen(probe.c_str(), "wb");
  if (file == nullptr) return {errno, std::generic_category()};
  const bool is_written = std::fputc(' ', file) == ' ' && std::fflush(file) == 0;
  if (!is_written) error = {errno, std::generic_category()};
  std::fclose(file);
  std::error_code ignored;
  std::filesystem::remove(probe, ignored);
  return error;
}

std::filesystem::path write_checkpoint(const Checkpoint& checkpoint, const std::filesystem::path& folder) {
  check_lines(checkpoint);
  job::SafetensorsWriter writer;
  for (const auto& [name, tensor] : checkpoint.tensors) add(writer, name, tensor);
  writer.metadata("plumbline.checkpoint", kVersion);
  writer.metadata("configuration", lines_of(checkpoint.configuration));
  writer.metadata("configuration.hash", hash_of(checkpoint.configuration));
  writer.metadata("step", std::to_string(checkpoint.at.step));
  writer.metadata("epoch", std::to_string(checkpoint.at.epoch));
  writer.metadata("batch", std::to_string(checkpoint.at.batch));
  writer.metadata("seed", std::to_string(checkpoint.seed));
  writer.metadata("rank", std::to_string(checkpoint.rank));
  writer.metadata("ranks", std::to_string(checkpoint.ranks));
  for (const auto& [name, state] : checkpoint.states) writer.metadata(kStatePrefix + name, state);
  const std::filesystem::path file = checkpoint_file(folder, checkpoint.at.step, checkpoint.rank);
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  if (error)
    throw RuntimeFailure(fmt::format("'{}' cannot be made a folder: {}", file.parent_path().string(), error.message()));
  writer.write(file);
  return file;
}

Checkpoint read_checkpoint(const std::filesystem::path& file, const Configuration& configuration, int rank, int ranks) {
  const job::SafetensorsReader reader(file);
  const Metadata metadata(reader);
  Checkpoint checkpoint;
  checkpoint.configuration = configuration_of_lines(metadata.text("configuration"));
  if (hash_of(checkpoint.configuration) != metadata.text("configuration.hash"))
    metadata.refuse(fmt::format("its configuration has hash {}, but the file states {}: it is damaged",
                                hash_of(checkpoint.configuration), metadata.text("configuration.hash")));
  if (const auto difference = first_difference(checkpoint.configuration, configuration))
    metadata.refuse(fmt::format("it is of another run: {}", *difference));
  checkpoint.rank = metadata.number<int>("rank");
  checkpoint.ranks = metadata.number<int>("ranks");
  if (checkpoint.rank != rank || checkpoint.ranks != ranks)
    metadata.refuse(
        fmt::format("it is of rank {} of {}; rank {} of {} reads it", checkpoint.rank, checkpoint.ranks, rank, ranks));
  checkpoint.at = {.epoch = metadata.number<int>("epoch"),
                   .batch = metadata.number<std::int64_t>("batch"),
                   .step = metadata.number<std::int64_t>("step")};
  checkpoint.seed = metadata.number<std::uint64_t>("seed");
  for (const auto& [key, value] : reader.metadata())
    if (key.starts_with(kStatePrefix)) checkpoint.states[key.substr(std::strlen(kStatePrefix))] = value;
  for (const auto& [name, info] : reader.tensors()) checkpoint.tensors[name] = read(reader, name, info);
  return checkpoint;
}

std::vector<std::int64_t> checkpoint_steps(const std::filesystem::path& folder, int ranks) {
  std::vector<std::int64_t> steps = begun_steps(folder);
  std::erase_if(steps, [&](std::int64_t step) {
    for (int rank = 0; rank < ranks; ++rank) {
      std::error_code ignored;
      if (!std::filesystem::is_regular_file(checkpoint_file(folder, step, rank), ignored)) return true;
    }
    return false;
  });
  return steps;
}

void prune_checkpoints(const std::filesystem::path& folder, int ranks, int keep) {
  if (keep < 1) throw InvalidArgument(fmt::format("keep = {}; at least 1 checkpoint is kept", keep));
  const std::vector<std::int64_t> complete = checkpoint_steps(folder, ranks);
  if (complete.empty()) return;
  const std::size_t kept = std::min(static_cast<std::size_t>(keep), complete.size());
  const std::int64_t oldest = complete[complete.size() - kept];
  for (const std::int64_t step : begun_steps(folder)) {
    if (step >= oldest) continue;
    std::error_code error;
    std::filesystem::remove_all(checkpoint_file(folder, step, 0).parent_path(), error);
    if (error)
      throw RuntimeFailure(fmt::format("'{}' cannot be deleted: {}",
                                       checkpoint_file(folder, step, 0).parent_path().string(), error.message()));
  }
}

}  // namespace plumbline::training
