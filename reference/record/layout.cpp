#include "reference/record/layout.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/names.hpp"
#include "reference/schedules/schedule.hpp"

namespace plumbline::job {
namespace {

// The shape of a layer's weight and, where it has one, bias.
struct Shapes {
  std::optional<Shape> weight;
  std::optional<Shape> bias;
};

struct ShapesOf {
  Shapes operator()(const Linear& layer) const { return with_bias({layer.out, layer.in}, layer.out, layer.bias); }
  Shapes operator()(const Conv2d& layer) const {
    return with_bias({layer.out, layer.in, layer.kernel, layer.kernel}, layer.out, layer.bias);
  }
  Shapes operator()(const BatchNorm2d& layer) const { return with_bias({layer.features}, layer.features, true); }
  Shapes operator()(const LayerNorm& layer) const { return with_bias({layer.features}, layer.features, true); }
  Shapes operator()(const Embedding& layer) const { return {.weight = Shape{layer.rows, layer.features}}; }
  Shapes operator()(const Moe& layer) const { return {.weight = Shape{layer.experts, layer.features}}; }
  template <class Plain>
  Shapes operator()(const Plain&) const {
    return {};
  }

 private:
  static Shapes with_bias(Shape weight, std::int64_t out, bool bias) {
    return {.weight = std::move(weight), .bias = bias ? std::optional<Shape>{Shape{out}} : std::nullopt};
  }
};

// What a layer makes of one row; nothing where it does not fit.
struct ShapeAfter {
  const RunSpec& spec;
  const Shape& row;
  const std::vector<Shape>& outputs;  // of the layers before

  [[nodiscard]] std::optional<Shape> last_becomes(std::int64_t in, std::int64_t out) const {
    if (row.empty() || row.back() != in) return std::nullopt;
    Shape after = row;
    after.back() = out;
    return after;
  }
  std::optional<Shape> operator()(const Linear& layer) const { return last_becomes(layer.in, layer.out); }
  std::optional<Shape> operator()(const LayerNorm& layer) const { return last_becomes(layer.features, layer.features); }
  std::optional<Shape> operator()(const Moe& layer) const { return last_becomes(layer.features, layer.features); }
  std::optional<Shape> operator()(const TiedLinear& layer) const {
    const Layer& with = spec.layers[static_cast<std::size_t>(layer.with)];
    const Shape weight = *std::visit(ShapesOf{}, with).weight;
    return last_becomes(weight[1], weight[0]);
  }
  std::optional<Shape> operator()(const Conv2d& layer) const {
    if (row.size() != 3 || row[0] != layer.in) return std::nullopt;
    Shape after{layer.out, 0, 0};
    for (const std::size_t axis : {std::size_t{1}, std::size_t{2}}) {
      const std::int64_t room = row[axis] + 2 * layer.padding - layer.kernel;
      if (room < 0) return std::nullopt;
      after[axis] = room / layer.stride + 1;
    }
    return after;
  }
  std::optional<Shape> operator()(const BatchNorm2d& layer) const {
    return row.size() == 3 && row[0] == layer.features ? std::optional(row) : std::nullopt;
  }
  std::optional<Shape> operator()(const Embedding& layer) const {
    Shape after = row;
    after.push_back(layer.features);
    return after;
  }
  std::optional<Shape> operator()(const Attention& layer) const {
    if (row.size() != 2 || row[1] % (3 * layer.heads) != 0) return std::nullopt;
    return Shape{row[0], row[1] / 3};
  }
  std::optional<Shape> operator()(const Add& layer) const {
    return outputs[static_cast<std::size_t>(layer.with)] == row ? std::optional(row) : std::nullopt;
  }
  std::optional<Shape> operator()(const Flatten&) const { return Shape{elements_of(row)}; }
  template <class Elementwise>
  std::optional<Shape> operator()(const Elementwise&) const {
    return row;
  }
};

// What a row must be that reaches a layer, in words.
struct ShapeNeeded {
  const RunSpec& spec;
  const std::vector<Shape>& outputs;  // of the layers before

  static std::string ending_with(std::int64_t size) { return fmt::format("it must end with {}", size); }
  std::string operator()(const Linear& layer) const { return ending_with(layer.in); }
  std::string operator()(const LayerNorm& layer) const { return ending_with(layer.features); }
  std::string operator()(const Moe& layer) const { return ending_with(layer.features); }
  std::string operator()(const TiedLinear& layer) const {
    return ending_with((*std::visit(ShapesOf{}, spec.layers[static_cast<std::size_t>(layer.with)]).weight)[1]);
  }
  std::string operator()(const Conv2d& layer) const {
    return fmt::format("it must be [{}, height, width], with room for a kernel of {}", layer.in, layer.kernel);
  }
  std::string operator()(const BatchNorm2d& layer) const {
    return fmt::format("it must be [{}, height, width]", layer.features);
  }
  std::string operator()(const Attention& layer) const {
    return fmt::format("it must be [tokens, features], with features a multiple of {}, 3 x heads", 3 * layer.heads);
  }
  std::string operator()(const Add& layer) const {
    return fmt::format("layer {} gives {}", layer.with, text_of(outputs[static_cast<std::size_t>(layer.with)]));
  }
  template <class Any>
  std::string operator()(const Any&) const {
    return "any shape fits";
  }
};

int size_along(const Parallel& parallel, const std::string& axis) {
  return axis == "pipeline" ? parallel.pipeline : axis == "data" ? parallel.data : parallel.tensor;
}

}  // namespace

std::vector<Parameter> parameters_of(const RunSpec& spec) {
  std::vector<Parameter> list;
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const Shapes shapes = std::visit(ShapesOf{}, spec.layers[i]);
    const int layer = static_cast<int>(i);
    if (shapes.weight) list.push_back({fmt::format("{}.weight", i), layer, *shapes.weight});
    if (shapes.bias) list.push_back({fmt::format("{}.bias", i), layer, *shapes.bias});
    const auto* moe = std::get_if<Moe>(&spec.layers[i]);
    for (int expert = 0; moe != nullptr && expert < moe->experts; ++expert) {
      list.push_back({fmt::format("{}.up.{}", i, expert), layer, {moe->hidden, moe->features}, expert});
      list.push_back({fmt::format("{}.down.{}", i, expert), layer, {moe->features, moe->hidden}, expert});
    }
  }
  return list;
}

bool trains(const RunSpec& spec, const Parameter& parameter) {
  return std::ranges::find(spec.frozen, parameter.name) == spec.frozen.end();
}

topology::Topology grid_of(const Parallel& parallel) {
  std::vector<int> sizes;
  for (const std::string& axis : parallel.order) sizes.push_back(size_along(parallel, axis));
  return topology::Topology::row_major(parallel.order, sizes);
}

Coordinates coordinates_of(const Parallel& parallel, int rank) {
  const topology::Topology grid = grid_of(parallel);
  return {.pipeline = grid.position(rank, "pipeline"),
          .data = grid.position(rank, "data"),
          .tensor = grid.position(rank, "tensor")};
}

int rank_of(const Parallel& parallel, const Coordinates& at) {
  return grid_of(parallel).rank({{"pipeline", at.pipeline}, {"data", at.data}, {"tensor", at.tensor}});
}

int stage_of_layer(const RunSpec& spec, int layer) {
  const auto after = std::ranges::upper_bound(spec.stages, layer);
  return static_cast<int>(after - spec.stages.begin()) - 1;
}

bool goes_back(std::string_view schedule) {
  const auto schedule_kind = schedules::find_schedule_kind(schedule);
  return schedule_kind && schedules::traits_of(*schedule_kind).placement == schedules::Placement::v;
}

int pipeline_rank_of_stage(const RunSpec& spec, int stage) {
  const auto placement = goes_back(spec.run.schedule) ? schedules::Placement::v : schedules::Placement::loop;
  return schedules::stage_to_rank(spec.parallel.pipeline, static_cast<int>(spec.stages.size()), placement)
      .at(static_cast<std::size_t>(stage));
}

std::vector<int> holders_of(const RunSpec& spec, const Parameter& parameter) {
  const auto holder = [&](int layer) { return pipeline_rank_of_stage(spec, stage_of_layer(spec, layer)); };
  std::vector<int> ranks{holder(parameter.layer)};
  const bool is_weight = parameter.name.ends_with(".weight");
  for (std::size_t i = 0; is_weight && i < spec.layers.size(); ++i)
    if (const TiedLinear* tied = std::get_if<TiedLinear>(&spec.layers[i]); tied && tied->with == parameter.layer)
      ranks.push_back(holder(static_cast<int>(i)));
  std::ranges::sort(ranks);
  const auto repeated = std::ranges::unique(ranks);
  ranks.erase(repeated.begin(), repeated.end());
  return ranks;
}

bool is_on_data_rank(const RunSpec& spec, const Parameter& parameter, int data_rank) {
  if (parameter.expert < 0) return true;
  const auto& layer = std::get<Moe>(spec.layers[static_cast<std::size_t>(parameter.layer)]);
  return parameter.expert / (layer.experts / spec.parallel.expert) == data_rank % spec.parallel.expert;
}

int last_pipeline_rank(const RunSpec& spec) {
  return pipeline_rank_of_stage(spec, static_cast<int>(spec.stages.size()) - 1);
}

std::vector<RowRange> micro_batches_of(const RunSpec& spec, int step, int data_rank) {
  const std::int64_t slice = spec.run.global_batch / spec.parallel.data;
  const std::int64_t rows = slice / spec.run.micro_batches;
  std::vector<RowRange> list;
  for (int i = 0; i < spec.run.accumulation; ++i)
    for (int part = 0; part < spec.run.micro_batches; ++part)
      list.push_back({.batch = std::int64_t{step} * spec.run.accumulation + i,
                      .first_row = data_rank * slice + part * rows,
                      .rows = rows});
  return list;
}

Shape output_shape(const RunSpec& spec, const Shape& row) {
  Shape shape = row;
  std::vector<Shape> outputs;
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const std::optional<Shape> after = std::visit(ShapeAfter{spec, shape, outputs}, spec.layers[i]);
    if (!after)
      throw InvalidArgument(fmt::format("model.layer[{}] ({}) does not fit: a row that reaches it has shape {}; {}", i,
                                        name_of(spec.layers[i]), text_of(shape),
                                        std::visit(ShapeNeeded{spec, outputs}, spec.layers[i])));
    shape = *after;
    outputs.push_back(shape);
  }
  return shape;
}

}  // namespace plumbline::job
