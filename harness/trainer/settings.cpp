#include "harness/trainer/settings.hpp"

#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/support/nearest_name.hpp"
#include "reference/support/toml_fields.hpp"

namespace plumbline::training {
namespace {

using job::Fields;
using Names = std::vector<std::string>;

const Names kFields{
    "BATCH_SIZE",    "NUM_EPOCHS", "NUM_MICRO_BATCHES",     "NUM_CHUNKS", "tensor_shape", "LEARNING_RATE",
    "WARMUP_EPOCHS", "SEED",       "gradient_accumulation", "parallel",   "fp16",         "resnet",
    "zero"};
const Names kParallelFields{"pipeline", "tensor", "data"};
const Names kPipelineFields{"size"};
const Names kTensorFields{"size", "mode"};
const Names kTensorModes{"1d", "2d", "2.5d", "3d", "sequence"};
const Names kFp16Fields{"mode"};
const Names kFp16Modes{"naive"};
const Names kZeroFields{"level"};
const Names kResidualFields{
    "block", "layers", "num_classes", "zero_init_residual", "groups", "width_per_group", "replace_stride_with_dilation",
    "planes"};
const Names kResidualBlocks{"bottleneck", "basic"};

constexpr int kMost = 1 << 20;  // ranks, stages
constexpr std::int64_t kMostElements = std::int64_t{1} << 40;

void refuse_unknown(const toml::table& table, const std::string& path, const Names& known, const std::string& origin) {
  for (const auto& [key, node] : table) {
    const std::string_view name = key.str();
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::optional<std::string> nearest = meant_name(name, known);
    job::refuse(origin, key.source(),
                fmt::format("unknown field {}{}; {}", path, name,
                            nearest ? fmt::format("did you mean {}{}?", path, *nearest)
                                    : fmt::format("the known ones are {}", fmt::join(known, ", "))));
  }
}

// What is wrong with settings, as `refuse` says it, which throws.
class Check {
 public:
  using Refuse = std::function<void(const std::string& field, const std::string& problem)>;
  Check(const TrainerSettings& settings, Refuse refuse) : settings_(settings), refuse_(std::move(refuse)) {}

  void run() const {
    const TrainerSettings& settings = settings_;
    need(settings.batch_size >= 1, "BATCH_SIZE", settings.batch_size, "at least 1");
    need(settings.epochs >= 1, "NUM_EPOCHS", settings.epochs, "at least 1");
    need(settings.micro_batches >= 1, "NUM_MICRO_BATCHES", settings.micro_batches, "at least 1");
    need(settings.chunks >= 1, "NUM_CHUNKS", settings.chunks, "at least 1");
    need(settings.accumulation >= 1, "gradient_accumulation", settings.accumulation, "at least 1");
    need(settings.learning_rate > 0 && std::isfinite(settings.learning_rate), "LEARNING_RATE", settings.learning_rate,
         "a finite number above 0");
    need(settings.warmup_epochs >= 0 && settings.warmup_epochs <= settings.epochs, "WARMUP_EPOCHS",
         settings.warmup_epochs, fmt::format("0 to NUM_EPOCHS = {}", settings.epochs));
    for (const auto& [name, size] : {std::pair{"pipeline", settings.pipeline}, std::pair{"tensor", settings.tensor},
                                     std::pair{"data", settings.data}})
      need(size >= 1 && size <= kMost, fmt::format("parallel.{}", name), size, fmt::format("1 to {}", kMost));
    need(std::int64_t{settings.pipeline} * settings.data <= kMost / settings.tensor, "parallel.data", settings.data,
         fmt::format("such that the world has at most {} ranks", kMost));
    need(settings.chunks <= kMost / settings.pipeline, "NUM_CHUNKS", settings.chunks,
         fmt::format("such that there are at most {} stages", kMost));
    std::int64_t elements = 1;
    for (const std::int64_t size : settings.tensor_shape) {
      need(size >= 1, "tensor_shape", job::text_of(settings.tensor_shape), "a list of whole numbers from 1 on");
      need(size <= kMostElements / elements, "tensor_shape", job::text_of(settings.tensor_shape),
           fmt::format("of at most {} elements", kMostElements));
      elements *= size;
    }
    need(settings.batch_size % settings.micro_batches == 0, "BATCH_SIZE", settings.batch_size,
         fmt::format("a multiple of NUM_MICRO_BATCHES = {}", settings.micro_batches));
    residual(settings.resnet);
  }

 private:
  void residual(const ResidualSettings& resnet) const {
    constexpr std::int64_t kMostWide = 1 << 16;
    const auto of_layers = fmt::format("[{}]", fmt::join(resnet.layers, ", "));
    need(resnet.layers.size() == 4, "resnet.layers", of_layers, "four numbers of blocks");
    for (const int blocks : resnet.layers)
      need(blocks >= 1 && blocks <= 1000, "resnet.layers", of_layers, "four numbers of blocks, 1 to 1000");
    for (const auto& [name, value] :
         {std::pair{"num_classes", resnet.classes}, std::pair{"groups", resnet.groups},
          std::pair{"width_per_group", resnet.width_per_group}, std::pair{"planes", resnet.planes}})
      need(value >= 1 && value <= kMostWide, fmt::format("resnet.{}", name), value, fmt::format("1 to {}", kMostWide));
    need(resnet.planes * resnet.width_per_group >= 64, "resnet.width_per_group", resnet.width_per_group,
         fmt::format("at least 64 / planes = {}", (63 + resnet.planes) / resnet.planes));
    const std::size_t dilations = resnet.replace_stride_with_dilation.size();
    need(dilations == 3, "resnet.replace_stride_with_dilation", fmt::format("a list of {}", dilations),
         "three of true and false");
    if (resnet.block != "basic") return;
    need(resnet.groups == 1, "resnet.groups", resnet.groups, "1 with block = 'basic'");
    need(resnet.width_per_group == 64, "resnet.width_per_group", resnet.width_per_group, "64 with block = 'basic'");
    need(std::ranges::count(resnet.replace_stride_with_dilation, true) == 0, "resnet.replace_stride_with_dilation",
         "one of true", "three of false with block = 'basic'");
  }

  template <class T>
  void need(bool right, const std::string& field, const T& value, const std::string& what) const {
    if (!right) refuse_(field, fmt::format("{} = {}; it must be {}", field, value, what));
  }

  const TrainerSettings& settings_;
  Refuse refuse_;
};

// The file while it is read: a field's name with its place, for what is wrong with a value.
class Reader {
 public:
  Reader(const toml::table& file, const std::string& origin) : file_(file), origin_(origin) {}

  TrainerSettings settings() {
    refuse_unknown(file_, "", kFields, origin_);
    Fields fields(file_, "", origin_);
    TrainerSettings settings;
    fields.integer("BATCH_SIZE", settings.batch_size);
    fields.integer("NUM_EPOCHS", settings.epochs);
    fields.integer("NUM_MICRO_BATCHES", settings.micro_batches);
    fields.integer("NUM_CHUNKS", settings.chunks);
    fields.list("tensor_shape", settings.tensor_shape, "a list of whole numbers from 1 on");
    fields.number("LEARNING_RATE", settings.learning_rate);
    fields.integer("WARMUP_EPOCHS", settings.warmup_epochs);
    fields.integer("SEED", settings.seed);
    fields.integer("gradient_accumulation", settings.accumulation);
    if (auto parallel = fields.table("parallel")) read_parallel(*parallel, settings);
    read_fp16(fields, settings);
    refuse_zero(fields);
    if (auto resnet = fields.table("resnet")) read_residual(*resnet, settings.resnet);
    Check(settings, [this](const std::string& field, const std::string& problem) {
      job::refuse(origin_, place_of(field), problem);
    }).run();
    return settings;
  }

 private:
  void read_parallel(Fields& fields, TrainerSettings& settings) {
    const toml::table& table = *file_.get("parallel")->as_table();
    refuse_unknown(table, "parallel.", kParallelFields, origin_);
    read_size(fields, table, "pipeline", kPipelineFields, settings.pipeline);
    if (auto tensor = read_size(fields, table, "tensor", kTensorFields, settings.tensor); tensor && tensor->has("mode"))
      settings.tensor_mode = kTensorModes[tensor->word("mode", kTensorModes)];
    fields.integer("data", settings.data);
  }
  void read_fp16(Fields& fields, TrainerSettings& settings) {
    auto fp16 = fields.table("fp16");
    if (!fp16) return;
    refuse_unknown(*file_.get("fp16")->as_table(), "fp16.", kFp16Fields, origin_);
    fp16->need("mode");
    settings.fp16 = kFp16Modes[fp16->word("mode", kFp16Modes)];
  }
  void refuse_zero(Fields& fields) {
    auto zero = fields.table("zero");
    if (!zero) return;
    refuse_unknown(*file_.get("zero")->as_table(), "zero.", kZeroFields, origin_);
    int level = 0;
    zero->integer("level", level);
    if (level != 0)
      zero->wrong("level", "0: a sharded optimizer gives gradients away while a pipeline still adds to them");
  }
  void read_residual(Fields& fields, ResidualSettings& resnet) {
    refuse_unknown(*file_.get("resnet")->as_table(), "resnet.", kResidualFields, origin_);
    resnet.block = kResidualBlocks[fields.word("block", kResidualBlocks)];
    fields.list("layers", resnet.layers, "four numbers of blocks");
    fields.integer("num_classes", resnet.classes);
    fields.truth("zero_init_residual", resnet.zero_init_residual);
    fields.integer("groups", resnet.groups);
    fields.integer("width_per_group", resnet.width_per_group);
    fields.list("replace_stride_with_dilation", resnet.replace_stride_with_dilation, "three of true and false");
    fields.integer("planes", resnet.planes);
  }
  // A number, or a table with one; the table.
  std::optional<Fields> read_size(Fields& fields, const toml::table& table, const std::string& name, const Names& known,
                                  int& size) {
    const toml::node* node = table.get(name);
    if (node == nullptr || !node->is_table()) {
      fields.integer(name, size);
      return std::nullopt;
    }
    refuse_unknown(*node->as_table(), fmt::format("parallel.{}.", name), known, origin_);
    auto inner = fields.table(name);
    inner->integer("size", size);
    return inner;
  }

  // Of a field that was left out, the place of what would hold it.
  [[nodiscard]] toml::source_region place_of(std::string field) const {
    for (; !field.empty(); field.resize(field.find('.') == std::string::npos ? 0 : field.rfind('.')))
      if (const auto view = toml::at_path(file_, field)) return view.node()->source();
    return file_.source();
  }

  const toml::table& file_;
  const std::string& origin_;
};

}  // namespace

TrainerSettings parse_trainer_settings(std::string_view text, const std::string& origin) {
  toml::table file;
  try {
    file = toml::parse(text, origin);
  } catch (const toml::parse_error& error) {
    job::refuse(origin, error.source(), std::string(error.description()));
  }
  return Reader(file, origin).settings();
}

TrainerSettings read_trainer_settings(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::error_code ignored;
  const bool readable = stream.is_open() && !std::filesystem::is_directory(file, ignored);
  const std::string text = readable ? std::string(std::istreambuf_iterator<char>(stream), {}) : "";
  if (!readable || stream.bad())
    throw NotFound(
        fmt::format("'{}' cannot be read; it must be a TOML file with BATCH_SIZE, NUM_MICRO_BATCHES, …, and "
                    "[parallel]",
                    file.string()));
  return parse_trainer_settings(text, file.string());
}

void require_possible(const TrainerSettings& settings) {
  Check(settings, [](const std::string&, const std::string& problem) { throw InvalidArgument(problem); }).run();
}

namespace {

std::string text_of(const ResidualSettings& resnet) {
  return fmt::format(
      "{} [{}], {} classes, zero_init_residual {}, groups {}, width_per_group {}, dilation [{}], planes {}",
      resnet.block, fmt::join(resnet.layers, ", "), resnet.classes, resnet.zero_init_residual, resnet.groups,
      resnet.width_per_group, fmt::join(resnet.replace_stride_with_dilation, ", "), resnet.planes);
}

}  // namespace

Configuration configuration_of(const TrainerSettings& settings) {
  const auto text = [](const auto& value) { return fmt::format("{}", value); };
  return {{"BATCH_SIZE", text(settings.batch_size)},
          {"NUM_EPOCHS", text(settings.epochs)},
          {"NUM_MICRO_BATCHES", text(settings.micro_batches)},
          {"NUM_CHUNKS", text(settings.chunks)},
          {"tensor_shape", job::text_of(settings.tensor_shape)},
          {"LEARNING_RATE", text(settings.learning_rate)},
          {"WARMUP_EPOCHS", text(settings.warmup_epochs)},
          {"SEED", text(settings.seed)},
          {"parallel.pipeline", text(settings.pipeline)},
          {"parallel.tensor.size", text(settings.tensor)},
          {"parallel.tensor.mode", settings.tensor_mode},
          {"parallel.data", text(settings.data)},
          {"gradient_accumulation", text(settings.accumulation)},
          {"fp16.mode", settings.fp16},
          {"resnet", text_of(settings.resnet)}};
}

}  // namespace plumbline::training
