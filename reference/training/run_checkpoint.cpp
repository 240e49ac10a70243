#include "reference/training/detail/run_checkpoint.hpp"

#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <sstream>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/record/layout.hpp"
#include "reference/training/checkpoint.hpp"

namespace plumbline::training {
namespace {

constexpr const char* kOptimizerSteps = "optimizer.steps";
constexpr const char *kScale = "scaler.scale", *kGrowthTracker = "scaler.growth_tracker";

// The tensors of a part, and what they are called.
std::array<std::pair<const char*, at::Tensor*>, 3> tensors_of(SavedPart& part) {
  return {{{"parameter", &part.value}, {"moment1", &part.moments.first}, {"moment2", &part.moments.second}}};
}

StoredTensor stored(const at::Tensor& tensor) {
  const at::Tensor host = tensor.detach().to(at::kCPU, at::kFloat).contiguous();
  StoredTensor result{
      .dtype = comm::DType::f32, .shape = host.sizes().vec(), .bytes = std::vector<std::byte>(host.nbytes())};
  std::memcpy(result.bytes.data(), host.const_data_ptr(), result.bytes.size());
  return result;
}

/// Of a tensor in float32 with as many bytes as its shape says.
at::Tensor loaded(const StoredTensor& stored) {
  const at::Tensor tensor = at::empty(stored.shape, at::kFloat);
  std::memcpy(tensor.data_ptr(), stored.bytes.data(), stored.bytes.size());
  return tensor;
}

at::Tensor within(const at::Tensor& whole, const Shard& shard) {
  if (shard.dim == kFlatShard) return whole.view(-1).narrow(0, shard.part.begin, shard.part.size);
  return shard.dim < 0 ? whole : whole.narrow(shard.dim, shard.part.begin, shard.part.size);
}

// A number among the checkpoint's states.
template <class T>
T number_in(const Checkpoint& checkpoint, const std::string& name) {
  const auto found = checkpoint.states.find(name);
  T value{};
  if (found == checkpoint.states.end() || !(std::istringstream(found->second) >> value))
    throw InvalidArgument(fmt::format("the checkpoint has no number '{}'", name));
  return value;
}

// The part of a parameter of this shape that a file has.
Shard shard_in(const Checkpoint& checkpoint, const std::string& name, const job::Shape& shape) {
  const Shard shard{.dim = number_in<int>(checkpoint, name + ".dim"),
                    .part = {.begin = number_in<std::int64_t>(checkpoint, name + ".begin"),
                             .size = number_in<std::int64_t>(checkpoint, name + ".size")}};
  if (shard.dim < 0 && shard.dim != kFlatShard) return shard;
  const auto dims = static_cast<int>(shape.size());
  const std::int64_t size = shard.dim == kFlatShard ? job::elements_of(shape)
                            : shard.dim < dims      ? shape[static_cast<std::size_t>(shard.dim)]
                                                    : -1;
  const auto [begin, count] = shard.part;
  if (begin < 0 || count < 0 || begin > size || count > size - begin)
    throw InvalidArgument(
        fmt::format("the checkpoint has elements {} and {} more of dimension {} of '{}', whose shape "
                    "is {}",
                    begin, count, shard.dim, name, job::text_of(shape)));
  return shard;
}

// What all files have of the parameters, by "<kind>/<name>".
class JoinedParts {
 public:
  explicit JoinedParts(const job::RunSpec& spec) {
    for (const job::Parameter& parameter : job::parameters_of(spec)) shapes_[parameter.name] = parameter.shape;
  }
  void add(const Checkpoint& checkpoint) {
    for (const auto& [key, tensor] : checkpoint.tensors) {
      const std::string name = key.substr(key.find('/') + 1);
      const auto shape = shapes_.find(name);
      if (shape == shapes_.end())
        throw InvalidArgument(fmt::format("the checkpoint has '{}', which no model has", key));
      Whole& whole = wholes_[key];
      if (!whole.values.defined()) whole = {at::zeros(shape->second, at::kFloat), at::zeros(shape->second, at::kBool)};
      const Shard shard = shard_in(checkpoint, name, shape->second);
      const at::Tensor part = within(whole.values, shard);
      if (tensor.dtype != comm::DType::f32 || at::IntArrayRef(tensor.shape) != part.sizes())
        throw InvalidArgument(fmt::format("the checkpoint's '{}' is {} {}; it must be {} {}", key,
                                          comm::name_of(tensor.dtype), job::text_of(tensor.shape),
                                          comm::name_of(comm::DType::f32), job::text_of(part.sizes().vec())));
      part.copy_(loaded(tensor));
      within(whole.present, shard).fill_(true);
    }
  }
  /// Undefined where no file has any of it.
  [[nodiscard]] at::Tensor part(const std::string& key, const Shard& shard) const {
    const auto found = wholes_.find(key);
    if (found == wholes_.end()) return {};
    if (!within(found->second.present, shard).all().item<bool>())
      throw InvalidArgument(fmt::format("the checkpoint lacks a part of '{}'", key));
    return within(found->second.values, shard).clone();
  }

 private:
  struct Whole {
    at::Tensor values, present;
  };
  std::map<std::string, job::Shape> shapes_;
  std::map<std::string, Whole> wholes_;
};

std::vector<Checkpoint> checkpoints_of(const job::RunSpec& spec) {
  const std::filesystem::path folder = spec.checkpoint_folder();
  const auto file = [&](int rank) { return checkpoint_file(folder, spec.first_step(), rank); };
  int files = 0;
  while (std::filesystem::exists(file(files))) ++files;
  if (files == 0)
    throw NotFound(fmt::format("'{}' does not exist; checkpoint.begin = {} continues from it", file(0).string(),
                               spec.first_step()));
  std::vector<Checkpoint> all;
  for (int rank = 0; rank < files; ++rank)
    all.push_back(read_checkpoint(file(rank), configuration_of(spec), rank, files));
  return all;
}

}  // namespace

Configuration configuration_of(job::RunSpec spec) {
  spec.parallel = {};
  spec.stages = {0};
  spec.run.micro_batches = spec.run.chunks = 1;
  spec.run.schedule = "1f1b";
  spec.run.bucket_bytes = 0;
  spec.run.device = "";
  spec.run.activations = false;
  spec.checkpoint.reset();
  spec.injections.clear();
  Configuration configuration;
  std::istringstream lines(job::to_toml(spec));
  std::string table;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('[')) table = line;
    if (const auto middle = line.find(" = "); middle != std::string::npos)
      configuration.emplace_back(table + line.substr(0, middle), line.substr(middle + 3));
  }
  return configuration;
}

void save_run(const job::RunSpec& spec, int rank, const SavedRun& run) {
  const job::Coordinates at = job::coordinates_of(spec.parallel, rank);
  if (at.data >= spec.parallel.shard) return;  // other replicas have the same
  Checkpoint checkpoint{.configuration = configuration_of(spec),
                        .at = {.step = spec.end_step()},
                        .seed = spec.seed,
                        .states = {{kOptimizerSteps, std::to_string(run.optimizer_steps)}},
                        .tensors = {},
                        .rank = (at.pipeline * spec.parallel.tensor + at.tensor) * spec.parallel.shard + at.data,
                        .ranks = spec.parallel.pipeline * spec.parallel.tensor * spec.parallel.shard};
  if (run.scale) {
    checkpoint.states[kScale] = fmt::format("{}", run.scale->scale);
    checkpoint.states[kGrowthTracker] = std::to_string(run.scale->growth_tracker);
  }
  for (SavedPart part : run.parts) {
    const std::string& name = part.whole.name;
    for (const auto& [kind, tensor] : tensors_of(part))
      if (tensor->defined()) checkpoint.tensors[fmt::format("{}/{}", kind, name)] = stored(*tensor);
    checkpoint.states[name + ".dim"] = std::to_string(part.shard.dim);
    checkpoint.states[name + ".begin"] = std::to_string(part.shard.part.begin);
    checkpoint.states[name + ".size"] = std::to_string(part.shard.part.size);
  }
  (void)write_checkpoint(checkpoint, spec.checkpoint_folder());
}

void load_run(const job::RunSpec& spec, SavedRun& run) {
  const c10::AutoGradMode without_gradients(false);
  const std::vector<Checkpoint> all = checkpoints_of(spec);
  JoinedParts joined(spec);
  for (const Checkpoint& one : all) joined.add(one);
  run.optimizer_steps = number_in<int>(all.front(), kOptimizerSteps);
  if (run.scale) {
    run.scale->scale = number_in<float>(all.front(), kScale);
    run.scale->growth_tracker = number_in<std::int64_t>(all.front(), kGrowthTracker);
  }
  for (SavedPart& part : run.parts) {
    for (const auto& [kind, tensor] : tensors_of(part))
      *tensor = joined.part(fmt::format("{}/{}", kind, part.whole.name), part.shard);
    if (!part.value.defined())
      throw InvalidArgument(fmt::format("the checkpoint has no 'parameter/{}'", part.whole.name));
  }
}

}  // namespace plumbline::training
