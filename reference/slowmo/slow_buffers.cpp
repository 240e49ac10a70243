#include "reference/slowmo/detail/slow_buffers.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/slowmo/averaging.hpp"
#include "reference/slowmo/elements.hpp"

namespace plumbline::slowmo {
namespace {

using comm::Buffer;
using comm::DType;

DType common_type(std::span<const ParameterGroup> groups) {
  std::optional<DType> found;
  for (const ParameterGroup& group : groups)
    for (const Buffer& parameter : group.parameters) {
      if (found && *found != parameter.dtype)
        throw InvalidArgument(
            fmt::format("slowmo: the optimizer has parameters of {} and of {}; slow momentum needs one type",
                        comm::name_of(*found), comm::name_of(parameter.dtype)));
      found = parameter.dtype;
    }
  if (!found) throw InvalidArgument("slowmo: the optimizer has no parameters");
  return *found;
}

// The type that slow buffers are of.
DType slow_type(const Setting& setting, std::span<const ParameterGroup> groups) {
  const DType type = common_type(groups);
  const bool takes_doubles = setting.convention == Convention::plumbline;
  if (type != DType::f32 && !(takes_doubles && type == DType::f64))
    throw InvalidArgument(
        fmt::format("slowmo: the optimizer has parameters of {}; slow momentum is of f32{}, with master weights "
                    "where parameters have 16 bits",
                    comm::name_of(type), takes_doubles ? " or f64" : ""));
  return type;
}

}  // namespace

SlowBuffers::SlowBuffers(const Setting& setting, std::span<const ParameterGroup> groups, Workspace& workspace)
    : setting_(setting), dtype_(slow_type(setting, groups)), workspace_(workspace) {
  const MemorySpace& place = workspace.place();
  require_groups(setting, groups, place);
  for (const ParameterGroup& group : groups)
    for (const Buffer& parameter : group.parameters) elements_ += parameter.count;
  if (!setting.owns_shard) return;
  range_ = setting.memory_efficient ? shard_range(elements_, setting.shards, setting.rank) : Range{0, elements_};
  const std::size_t bytes = static_cast<std::size_t>(range_.size()) * comm::size_of(dtype_);
  old_ = {old_room_.take(place, bytes), range_.size(), dtype_, place.device()};
  momentum_ = {momentum_room_.take(place, bytes), range_.size(), dtype_, place.device()};
  place.fill(momentum_.data, std::byte{0}, bytes);
  std::vector<TensorPair> begin;
  for (const Piece& piece : pieces_of(groups, range_))
    begin.push_back({piece.values, part_of(old_, piece.at, piece.values.count)});
  copy(place, begin);
}

void SlowBuffers::require_groups(const Setting& setting, std::span<const ParameterGroup> groups,
                                 const MemorySpace& place) {
  for (const ParameterGroup& group : groups) device::require_at("slowmo: the optimizer's", group.parameters, place);
  if (setting.slow) (void)slow_type(setting, groups);
}

void SlowBuffers::require_rates(const Setting& setting, std::span<const ParameterGroup> groups) {
  if (!setting.outer.by_fast_rate) return;
  for (const ParameterGroup& group : groups)
    if (group.learning_rate == 0)
      throw InvalidArgument("slowmo: a learning rate is 0 in a slow step, which divides by it");
}

std::vector<SlowBuffers::Piece> SlowBuffers::pieces_of(std::span<const ParameterGroup> groups, Range range) {
  std::vector<Piece> pieces;
  std::int64_t offset = 0;
  for (const ParameterGroup& group : groups)
    for (const Buffer& parameter : group.parameters) {
      const std::int64_t begin = std::max(range.begin, offset), end = std::min(range.end, offset + parameter.count);
      if (begin < end)
        pieces.push_back({part_of(parameter, begin - offset, end - begin), begin - range.begin, group.learning_rate});
      offset += parameter.count;
    }
  return pieces;
}

std::vector<Buffer> SlowBuffers::shard_of(std::span<const ParameterGroup> groups, int shard) const {
  std::vector<Buffer> values;
  for (const Piece& piece : pieces_of(groups, shard_range(elements_, setting_.shards, shard)))
    values.push_back(piece.values);
  return values;
}

void SlowBuffers::average(comm::Communicator& global, std::span<const ParameterGroup> groups) const {
  const int divisor = setting_.world;
  if (!setting_.memory_efficient) {
    std::vector<Buffer> all;
    for (const ParameterGroup& group : groups) all.insert(all.end(), group.parameters.begin(), group.parameters.end());
    return all_reduce_mean(global, all, divisor, setting_.convention, workspace_);
  }
  for (int shard = 0; shard < setting_.shards; ++shard)
    reduce_mean(global, shard_of(groups, shard), divisor, shard, setting_.convention, workspace_);
}

// All of one learning rate at once.
void SlowBuffers::apply(std::span<const ParameterGroup> groups) {
  const std::vector<Piece> pieces = pieces_of(groups, range_);
  for (auto begin = pieces.begin(); begin != pieces.end();) {
    const auto end = std::ranges::find_if(
        begin, pieces.end(), [&](const Piece& piece) { return piece.learning_rate != begin->learning_rate; });
    const SlowRule rule{
        .outer = setting_.outer, .fast_learning_rate = begin->learning_rate, .convention = setting_.convention};
    std::vector<SlowTensor> tensors;
    for (auto piece = begin; piece != end; ++piece)
      tensors.push_back({piece->values, part_of(old_, piece->at, piece->values.count),
                         part_of(momentum_, piece->at, piece->values.count)});
    slow_steps(workspace_.place(), rule, tensors);
    begin = end;
  }
}

void SlowBuffers::step(comm::Communicator& global, const StepPlan& plan, std::span<const ParameterGroup> groups) {
  if (plan.slow_average) average(global, groups);
  require_rates(setting_, groups);
  if (setting_.owns_shard) apply(groups);
  if (!setting_.memory_efficient) return;
  for (int shard = 0; shard < setting_.shards; ++shard) broadcast(global, shard_of(groups, shard), shard, workspace_);
}

std::optional<SlowState> SlowBuffers::state() const {
  if (!setting_.owns_shard) return {};
  return SlowState{.range = range_, .old_parameters = values_of(old_), .momentum = values_of(momentum_)};
}

std::vector<double> SlowBuffers::values_of(Buffer memory) const {
  const std::vector<std::byte> bytes = device::bytes_of(workspace_.place(), memory);
  std::vector<double> values(static_cast<std::size_t>(memory.count));
  copy({bytes.data(), memory.count, memory.dtype}, {values.data(), memory.count, DType::f64});
  return values;
}

void SlowBuffers::set(Buffer memory, const std::vector<double>& values) const {
  std::vector<std::byte> bytes(memory.bytes());
  copy({values.data(), memory.count, DType::f64}, {bytes.data(), memory.count, memory.dtype});
  device::set_bytes(workspace_.place(), memory, bytes);
}

std::int64_t SlowBuffers::bytes() const { return static_cast<std::int64_t>(old_.bytes() + momentum_.bytes()); }

void SlowBuffers::load(const SlowState& state) {
  const auto count = static_cast<std::size_t>(range_.size());
  if (state.range != range_ || state.old_parameters.size() != count || state.momentum.size() != count)
    throw InvalidArgument(
        fmt::format("slowmo: the checkpoint has {} old parameters and {} of momentum, of elements {} to {}; "
                    "rank {} of {} keeps elements {} to {}",
                    state.old_parameters.size(), state.momentum.size(), state.range.begin, state.range.end,
                    setting_.rank, setting_.world, range_.begin, range_.end));
  set(old_, state.old_parameters);
  set(momentum_, state.momentum);
}

}  // namespace plumbline::slowmo
