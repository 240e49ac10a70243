// harness/trainer/models/blocks.hpp: a model as a row of blocks, and stages made of them.
//
// Model   A block says how it is made and is not made yet. A model is a row of blocks; a stage is an interval of them,
//         and a rank makes the blocks of its own stages only. The parts are numbered as ColossalAI and Megatron-LM
//         number them: part c*stages + r is chunk c of rank r. Where another placement is wanted (V schedules), the
//         caller says which numbers a rank has.
// Source  ColossalAI's builder.build_pipeline_model, which cuts a torch.nn.Sequential; its partitions are in
//         reference/schedules.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/trainer/models/layers.hpp"
#include "harness/trainer/models/tensor_store.hpp"
#include "reference/schedules/partition.hpp"
#include "reference/training/pipeline/stage.hpp"

namespace plumbline::training {

struct Block {
  std::string name;  // for people: "layer3, 6 bottlenecks"
  std::function<Layer(StageTensors& tensors)> make;
};
using Blocks = std::vector<Block>;

/// By what blocks are dealt out.
enum class Cut {
  uniform,   // ColossalAI's: by their number, the remainder to the last parts
  balanced,  // ColossalAI's: by their parameters
  optimal,   // by their parameters, the heaviest part as light as can be
};
/// "layer" and "parameter", ColossalAI's words for its two, and "optimal". Throws NotFound for another, with these.
[[nodiscard]] Cut cut_named(std::string_view name);

/// The trainable numbers of each block, without making any values.
[[nodiscard]] std::vector<std::int64_t> parameter_counts(const Blocks& blocks);

/// The blocks of each part, by number. Throws InvalidArgument as the partition does: for stages or chunks below 1, and
/// with `uniform` for blocks that the chunks do not divide.
[[nodiscard]] std::vector<schedules::Interval> parts_of(const Blocks& blocks, int stages, int chunks, Cut cut);

/// What goes where, a line a part: rank, which of its parts, blocks, parameters. `ranks` are those of the parts. For
/// people.
[[nodiscard]] std::string describe(const Blocks& blocks, std::span<const schedules::Interval> parts,
                                   std::span<const int> ranks);

/// A stage of some blocks: one tensor in, one out. Without blocks it gives what it gets. Throws InvalidArgument for an
/// interval that is not inside.
[[nodiscard]] std::unique_ptr<Stage> make_stage(const Blocks& blocks, schedules::Interval interval, TensorStore& store);
/// The parts of those numbers, by number. Throws OutOfRange for a number that there is not.
[[nodiscard]] std::map<int, std::unique_ptr<Stage>> make_stages(const Blocks& blocks,
                                                                std::span<const schedules::Interval> parts,
                                                                std::span<const int> numbers, TensorStore& store);

/// What ColossalAI's function of that name gives a rank: its chunks' stages, by number. `log`, where there is one, is
/// told what goes where.
[[nodiscard]] std::map<int, std::unique_ptr<Stage>> build_pipeline_model(
    const Blocks& blocks, int stages, int rank, int chunks, TensorStore& store,
    const std::function<void(const std::string& text)>& log = {});

}  // namespace plumbline::training
