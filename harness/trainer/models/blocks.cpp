#include "harness/trainer/models/blocks.hpp"

#include <numeric>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/partition.hpp"

namespace plumbline::training {
namespace {

class BlockStage final : public Stage {
 public:
  BlockStage(std::span<const Block> blocks, TensorStore& store) : tensors_(store) {
    for (const Block& block : blocks) layers_.push_back(block.make(tensors_));
  }

  Tensors forward(const Tensors& inputs, const Pass& pass) override {
    if (inputs.size() != 1) throw InvalidArgument(fmt::format("{} inputs; the stage takes 1", inputs.size()));
    // Without blocks, too, the output is not the input itself: that would be a leaf, which nothing can be propagated
    // through.
    at::Tensor value = layers_.empty() ? inputs[0].view_as(inputs[0]) : inputs[0];
    for (const Layer& layer : layers_) value = layer(value, pass);
    return {value};
  }
  std::vector<NamedTensor> parameters() const override { return tensors_.parameters(); }
  std::vector<NamedTensor> buffers() const override { return tensors_.buffers(); }

 private:
  StageTensors tensors_;
  std::vector<Layer> layers_;
};

// ColossalAI's answer, which is by rank and chunk, by number.
std::vector<schedules::Interval> by_number(const schedules::ColossalaiPartition& partition, int chunks) {
  std::vector<schedules::Interval> parts;
  for (int chunk = 0; chunk < chunks; ++chunk)
    for (const auto& rank : partition.ranks) parts.push_back(rank.at(static_cast<std::size_t>(chunk)));
  return parts;
}

std::int64_t sum(const std::vector<std::int64_t>& counts, schedules::Interval interval) {
  return std::accumulate(counts.begin() + interval.begin, counts.begin() + interval.end, std::int64_t{0});
}

}  // namespace

Cut cut_named(std::string_view name) {
  if (name == "layer") return Cut::uniform;
  if (name == "parameter") return Cut::balanced;
  if (name == "optimal") return Cut::optimal;
  throw NotFound(fmt::format("partition method '{}'; it must be layer, parameter or optimal", name));
}

std::vector<std::int64_t> parameter_counts(const Blocks& blocks) {
  std::vector<std::int64_t> counts;
  for (const Block& block : blocks) {
    TensorStore shapes(0, c10::DeviceType::Meta);
    StageTensors tensors(shapes);
    (void)block.make(tensors);
    std::int64_t count = 0;
    for (const NamedTensor& parameter : tensors.parameters()) count += parameter.tensor.numel();
    counts.push_back(count);
  }
  return counts;
}

std::vector<schedules::Interval> parts_of(const Blocks& blocks, int stages, int chunks, Cut cut) {
  if (stages < 1 || chunks < 1)
    throw InvalidArgument(fmt::format("{} stages and {} chunks; both must be at least 1", stages, chunks));
  constexpr int kMost = 1 << 20;
  if (chunks > kMost / stages)
    throw InvalidArgument(fmt::format("{} stages of {} chunks; at most {} parts are made", stages, chunks, kMost));
  const auto count = static_cast<int>(blocks.size());
  if (cut == Cut::uniform) return by_number(schedules::colossalai_uniform(count, stages, chunks), chunks);
  const std::vector<std::int64_t> weights = parameter_counts(blocks);
  if (cut == Cut::balanced) return by_number(schedules::colossalai_balanced(weights, stages, chunks), chunks);
  const std::vector<double> numbers(weights.begin(), weights.end());
  const schedules::Boundaries boundaries = schedules::partition_optimal(numbers, stages * chunks);
  std::vector<schedules::Interval> parts;
  for (std::size_t i = 0; i + 1 < boundaries.size(); ++i) parts.push_back({boundaries[i], boundaries[i + 1]});
  return parts;
}

std::string describe(const Blocks& blocks, std::span<const schedules::Interval> parts, std::span<const int> ranks) {
  const std::vector<std::int64_t> counts = parameter_counts(blocks);
  std::string text = fmt::format("{} blocks, {} parameters, {} stages\n", blocks.size(),
                                 sum(counts, {0, static_cast<int>(blocks.size())}), parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto [begin, end] = parts[i];
    text += fmt::format("rank {}, chunk {}: {} parameters in", ranks[i], std::ranges::count(ranks.first(i), ranks[i]),
                        sum(counts, parts[i]));
    for (int block = begin; block < end; ++block)
      text += fmt::format("{} {}: {}", block == begin ? "" : ";", block, blocks[static_cast<std::size_t>(block)].name);
    text += begin == end ? " no block\n" : "\n";
  }
  return text;
}

std::unique_ptr<Stage> make_stage(const Blocks& blocks, schedules::Interval interval, TensorStore& store) {
  const auto [begin, end] = interval;
  if (begin < 0 || end < begin || std::cmp_greater(end, blocks.size()))
    throw InvalidArgument(fmt::format("blocks {} to {}; there are {}", begin, end, blocks.size()));
  return std::make_unique<BlockStage>(
      std::span(blocks).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)), store);
}

std::map<int, std::unique_ptr<Stage>> make_stages(const Blocks& blocks, std::span<const schedules::Interval> parts,
                                                  std::span<const int> numbers, TensorStore& store) {
  std::map<int, std::unique_ptr<Stage>> stages;
  for (const int number : numbers) {
    if (number < 0 || std::cmp_greater_equal(number, parts.size()))
      throw OutOfRange(fmt::format("stage {}; there are 0 to {}", number, parts.size() - 1));
    stages[number] = make_stage(blocks, parts[static_cast<std::size_t>(number)], store);
  }
  return stages;
}

std::map<int, std::unique_ptr<Stage>> build_pipeline_model(const Blocks& blocks, int stages, int rank, int chunks,
                                                           TensorStore& store,
                                                           const std::function<void(const std::string& text)>& log) {
  if (rank < 0 || rank >= stages) throw OutOfRange(fmt::format("pipeline rank {}; there are {}", rank, stages));
  const std::vector<schedules::Interval> parts = parts_of(blocks, stages, chunks, Cut::uniform);
  std::vector<int> ranks;
  for (std::size_t part = 0; part < parts.size(); ++part) ranks.push_back(static_cast<int>(part) % stages);
  if (log) log(describe(blocks, parts, ranks));
  std::vector<int> numbers;
  for (int chunk = 0; chunk < chunks; ++chunk) numbers.push_back(chunk * stages + rank);
  return make_stages(blocks, parts, numbers, store);
}

}  // namespace plumbline::training
